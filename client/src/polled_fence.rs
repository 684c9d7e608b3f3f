//! A fence whose caller looks again and again whether it has ended.

use pmix_dstore::model::{Info, Proc, Rank, Value, keys};

use crate::client::Client;
use crate::get::GetRequest;
use crate::operation::Operation;
use crate::pin;

impl Client {
    /// As [`Client::fence`], for a caller that will look again and again whether it has ended. Where ranks share processors and the fence
    /// collects data, the calling thread may sleep longer than it asks for until its next Get, fence or finalize.
    pub fn fence_without_wait(&self, procs: &[Proc], infos: Vec<Info>) -> Operation<()> {
        let collects = Info::is_set(&infos, keys::COLLECT_DATA);
        let operation = self.fence(procs, infos);
        if collects {
            let job = Proc::new(self.me().nspace.clone(), Rank::WILDCARD);
            let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
            let request = GetRequest::new(&job, keys::LOCAL_SIZE, &optional);
            let ranks = self.get(&request, |size| size.to_value().ok().and_then(|size| size.as_u64()));
            let ranks = ranks.ok().flatten().and_then(|ranks| u32::try_from(ranks).ok());
            pin::begin_patience(ranks.unwrap_or(1));
        }
        operation
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::prctl::get_timerslack;

    use super::*;
    use crate::client::tests::{flag, nspace, stage};

    #[test]
    fn a_thread_that_looks_for_the_end_of_a_fence_sleeps_longer_until_it_gets_the_data() {
        // The slack and the slot are those of a thread.
        let test = std::thread::spawn(|| {
            let stage = stage();
            let job = Proc::new(nspace("job"), Rank::WILDCARD);
            let (usual, slack) = (get_timerslack(), get_timerslack);
            let collecting = || drop(stage.client.fence_without_wait(&[], vec![flag(keys::COLLECT_DATA)]));
            pin::get_slot();
            collecting();
            assert_eq!(slack(), usual, "ranks that are not known to share processors");
            stage.client.store_internal(&job, keys::LOCAL_SIZE.into(), Value::Uint32(1_000_000)).unwrap();
            drop(stage.client.fence_without_wait(&[], Vec::new()));
            assert_eq!(slack(), usual, "a fence without data");
            // SAFETY: the slot is used by this thread alone, which does not end here.
            let next_get = || unsafe { pin::slot() }.is_some();
            for end in [&next_get as &dyn Fn() -> bool, &|| stage.client.finalize(&[]).is_ok()] {
                collecting();
                assert_eq!(slack(), Ok(10_000_000));
                // SAFETY: as above.
                assert!(unsafe { pin::cached_slot() }.is_none(), "a Get would not notice");
                collecting();
                assert_eq!(slack(), Ok(10_000_000), "another one");
                stage.answers_status(pmix_dstore::model::Status::SUCCESS);
                assert!(end());
                assert_eq!(slack(), usual);
            }
        });
        test.join().unwrap();
    }
}
