/* A counter that callbacks raise and a thread waits for. */
#ifndef PMIX_TEST_COUNTER_H
#define PMIX_TEST_COUNTER_H

#include <pthread.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
} counter_t;

#define COUNTER { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static inline void count_one(counter_t *counter)
{
    pthread_mutex_lock(&counter->lock);
    counter->count++;
    pthread_cond_signal(&counter->changed);
    pthread_mutex_unlock(&counter->lock);
}

/* Waits until it has been raised so many times. */
static inline void await_count(counter_t *counter, int count)
{
    pthread_mutex_lock(&counter->lock);
    while (counter->count < count) {
        pthread_cond_wait(&counter->changed, &counter->lock);
    }
    pthread_mutex_unlock(&counter->lock);
}

#endif
