//! Admission of new connections, before the handshake. Each listener is counted apart, so that connections at one do not block another.
//!
//! * A connection of a user without a job here is closed at once. If tools of all users are admitted, each of these users (strangers) has a
//!   small limit, and all of them together have another.
//! * A connection of a user with processes here that have not connected yet is always admitted: a limit would keep ranks out.
//! * A connection from another host has no user until munge has told it, and is silent until then. Each host has a small limit of such
//!   connections, and all of them together have another; beyond it the newest replaces the oldest.
//! * Any other connection is admitted, too; beyond a number of silent connections of its user the newest replaces the oldest.
//! * When silent connections take half of the descriptors, or no descriptor is free, the user with the most silent connections beyond the
//!   expected processes loses the oldest of them. A descriptor in reserve admits the next connection, so that its user can be determined.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::time::Instant;

use crate::engine::Standing;

/// Connections of one user without a process here at one time, if tools of all users are admitted.
const STRANGER_MAX: usize = 16;
/// Upper limit for all these users together (an eighth of the descriptors if that is less): one person may have many uids, see `subuid(5)`.
const STRANGERS_MAX: usize = 1024;

/// Connections from one other host without a user at one time.
const HOST_MAX: usize = 16;
/// Upper limit for those of all other hosts together (an eighth of the descriptors if that is less).
const HOSTS_MAX: usize = 256;

/// Where connections come from. Each origin is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// At the listener with this token.
    Listener(u64),
    /// From another host, by its address.
    Host(IpAddr),
}

/// The uid of a peer; `None` if nobody reports it.
type User = Option<u32>;

/// The decision about a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Enter,
    /// Admitted in place of this connection of the same user.
    Replace(u64),
    /// Closed at once, for this reason.
    Close(&'static str),
}

/// An admitted connection.
struct Guest {
    origin: Origin,
    user: User,
    is_stranger: bool,
    /// The end of its time for the handshake; `None` once it has sent one.
    deadline: Option<Instant>,
}

pub(super) struct Door {
    guests: HashMap<u64, Guest>,
    /// Silent connections, which have not sent a handshake yet, by the end of their time.
    deadlines: BTreeSet<(Instant, u64)>,
    /// The same by origin and user, oldest first.
    silent: HashMap<(Origin, User), BTreeSet<u64>>,
    /// Connections of strangers, silent or not.
    strangers: HashMap<User, usize>,
    /// Their total.
    strangers_count: usize,
    strangers_max: usize,
    /// Silent connections from other hosts, oldest first.
    from_hosts: BTreeSet<u64>,
    from_hosts_max: usize,
    /// Limit of silent connections of one user at one listener, if no process of the user is expected.
    silent_max: usize,
    /// Limit of silent connections of all users: leaves descriptors for other uses.
    crowd_max: usize,
    /// A descriptor that can be closed to free one.
    reserve: Option<TcpListener>,
}

impl Door {
    /// Admission for a server with a limit of `descriptors` descriptors.
    pub fn new(reserve: TcpListener, descriptors: usize) -> Door {
        Door {
            guests: HashMap::new(),
            deadlines: BTreeSet::new(),
            silent: HashMap::new(),
            strangers: HashMap::new(),
            strangers_count: 0,
            strangers_max: (descriptors / 8).clamp(STRANGER_MAX, STRANGERS_MAX),
            from_hosts: BTreeSet::new(),
            from_hosts_max: (descriptors / 8).clamp(HOST_MAX, HOSTS_MAX),
            silent_max: (descriptors / 8).max(16),
            crowd_max: (descriptors / 2).max(16),
            reserve: Some(reserve),
        }
    }

    /// Decides about a new connection.
    pub fn judge(&self, origin: Origin, user: User, standing: Standing) -> Verdict {
        match standing {
            Standing::Nobody => Verdict::Close("who has no process here"),
            Standing::Stranger if self.strangers.get(&user).is_some_and(|count| *count >= STRANGER_MAX) => {
                Verdict::Close("who has no process here and too many connections")
            }
            Standing::Stranger if self.strangers_count >= self.strangers_max => {
                Verdict::Close("who has no process here; too many connections of such users are open")
            }
            Standing::Stranger | Standing::Member { expected: 1.. } => Verdict::Enter,
            Standing::Member { expected: 0 } => {
                let silent = self.silent.get(&(origin, user)).filter(|silent| silent.len() >= self.silent_max);
                silent.and_then(BTreeSet::first).map_or(Verdict::Enter, |oldest| Verdict::Replace(*oldest))
            }
        }
    }

    /// Decides about a new connection from another host.
    pub fn judge_host(&self, host: IpAddr) -> Verdict {
        let of_host = self.silent.get(&(Origin::Host(host), None)).filter(|silent| silent.len() >= HOST_MAX);
        let all = Some(&self.from_hosts).filter(|silent| silent.len() >= self.from_hosts_max);
        of_host.or(all).and_then(BTreeSet::first).map_or(Verdict::Enter, |oldest| Verdict::Replace(*oldest))
    }

    pub fn enter(&mut self, token: u64, origin: Origin, user: User, standing: Standing, deadline: Instant) {
        let is_stranger = standing == Standing::Stranger;
        if is_stranger {
            *self.strangers.entry(user).or_default() += 1;
            self.strangers_count += 1;
        }
        self.deadlines.insert((deadline, token));
        self.silent.entry((origin, user)).or_default().insert(token);
        if let Origin::Host(_) = origin {
            self.from_hosts.insert(token);
        }
        self.guests.insert(token, Guest { origin, user, is_stranger, deadline: Some(deadline) });
    }

    /// Munge has told the user of a connection, which is silent no more. Decides whether it stays.
    pub fn identify(&mut self, token: u64, user: User, standing: Standing) -> Verdict {
        self.heard(token);
        let Some(origin) = self.guests.get(&token).map(|guest| guest.origin) else { return Verdict::Enter };
        let verdict = self.judge(origin, user, standing);
        let guest = self.guests.get_mut(&token).filter(|guest| !guest.is_stranger);
        if let (Verdict::Enter, Standing::Stranger, Some(guest)) = (verdict, standing, guest) {
            (guest.user, guest.is_stranger) = (user, true);
            *self.strangers.entry(user).or_default() += 1;
            self.strangers_count += 1;
        }
        verdict
    }

    /// The connection has sent its handshake.
    pub fn heard(&mut self, token: u64) {
        let Some(guest) = self.guests.get_mut(&token) else { return };
        let Some(deadline) = guest.deadline.take() else { return };
        self.deadlines.remove(&(deadline, token));
        self.from_hosts.remove(&token);
        let key = (guest.origin, guest.user);
        if let Some(silent) = self.silent.get_mut(&key) {
            silent.remove(&token);
            if silent.is_empty() {
                self.silent.remove(&key);
            }
        }
    }

    /// The connection has ended.
    pub fn left(&mut self, token: u64) {
        self.heard(token);
        let Some(Guest { user, is_stranger: true, .. }) = self.guests.remove(&token) else { return };
        self.strangers_count -= 1;
        if let Some(count) = self.strangers.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.strangers.remove(&user);
            }
        }
    }

    /// When the time of the next silent connection ends.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Silent connections past their time.
    pub fn expired(&self, now: Instant) -> Vec<u64> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, token)| *token).collect()
    }

    /// Whether silent connections take too many descriptors.
    pub fn is_crowded(&self) -> bool {
        self.deadlines.len() > self.crowd_max
    }

    /// The connection to drop when descriptors are short: the oldest silent one of the user with the most silent connections beyond
    /// its expected processes.
    pub fn dispensable(&self, mut expected: impl FnMut(User) -> usize) -> Option<u64> {
        let mut users: HashMap<User, (usize, u64)> = HashMap::new();
        for ((_, user), silent) in &self.silent {
            let Some(oldest) = silent.first() else { continue };
            let (count, first) = users.entry(*user).or_insert((0, *oldest));
            (*count, *first) = (*count + silent.len(), (*first).min(*oldest));
        }
        let beyond = users.into_iter().map(|(user, (count, oldest))| (count.saturating_sub(expected(user)), oldest));
        beyond.filter(|(beyond, _)| *beyond > 0).max().map(|(_, oldest)| oldest)
    }

    /// Closes the descriptor in reserve; `false` if it is closed already.
    pub fn spend_reserve(&mut self) -> bool {
        self.reserve.take().is_some()
    }

    /// Whether the descriptor in reserve is closed.
    pub fn has_spent_reserve(&self) -> bool {
        self.reserve.is_none()
    }

    /// Opens the descriptor in reserve again.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn restore_reserve(&mut self, from: &TcpListener) -> io::Result<()> {
        if self.reserve.is_none() {
            self.reserve = Some(from.try_clone()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TCP: Origin = Origin::Listener(1);
    const UNIX: Origin = Origin::Listener(2);
    const WAITED_FOR: Standing = Standing::Member { expected: 3 };
    const COMPLETE: Standing = Standing::Member { expected: 0 };

    fn door() -> Door {
        let reserve = TcpListener::bind("127.0.0.1:0").unwrap();
        Door { silent_max: 20, crowd_max: 50, ..Door::new(reserve, 320) }
    }

    fn fill(door: &mut Door, tokens: std::ops::Range<u64>, origin: Origin, user: u32, standing: Standing) {
        for token in tokens {
            let deadline = Instant::now() + Duration::from_secs(30 + token);
            door.enter(token, origin, Some(user), standing, deadline);
        }
    }

    #[test]
    fn expected_clients_are_always_admitted() {
        let mut door = door();
        fill(&mut door, 10..3000, TCP, 1000, WAITED_FOR);
        assert_eq!(door.judge(TCP, Some(1000), WAITED_FOR), Verdict::Enter);
        assert_eq!(door.judge(TCP, Some(2000), WAITED_FOR), Verdict::Enter);
    }

    #[test]
    fn users_without_expected_clients_keep_their_newest_connection() {
        let mut door = door();
        fill(&mut door, 10..29, TCP, 1000, COMPLETE);
        assert_eq!(door.judge(TCP, Some(1000), COMPLETE), Verdict::Enter);
        fill(&mut door, 29..30, TCP, 1000, COMPLETE);
        assert_eq!(door.judge(TCP, Some(1000), COMPLETE), Verdict::Replace(10));
        assert_eq!(door.judge(UNIX, Some(1000), COMPLETE), Verdict::Enter, "each listener for itself");
        assert_eq!(door.judge(TCP, Some(2000), COMPLETE), Verdict::Enter, "each user for himself");
        // A connection with a handshake is not silent.
        door.heard(10);
        assert_eq!(door.judge(TCP, Some(1000), COMPLETE), Verdict::Enter);
    }

    #[test]
    fn strangers_have_a_share_of_all_connections() {
        let mut door = door();
        assert!(matches!(door.judge(TCP, Some(1), Standing::Nobody), Verdict::Close(_)));
        fill(&mut door, 10..26, TCP, 1000, Standing::Stranger);
        (10..20).for_each(|token| door.heard(token));
        assert!(matches!(door.judge(TCP, Some(1000), Standing::Stranger), Verdict::Close(_)));
        assert_eq!(door.judge(TCP, Some(2000), Standing::Stranger), Verdict::Enter);
        door.left(10);
        assert_eq!(door.judge(TCP, Some(1000), Standing::Stranger), Verdict::Enter);
        (11..26).for_each(|token| door.left(token));
        assert!(door.strangers.is_empty() && door.silent.is_empty() && door.guests.is_empty());
        assert_eq!(door.deadline(), None);
    }

    #[test]
    fn all_strangers_together_have_a_share() {
        let mut door = door();
        // An eighth of the descriptors.
        for number in 0..40 {
            let user = 100_000 + number / 10;
            assert_eq!(door.judge(TCP, Some(user), Standing::Stranger), Verdict::Enter);
            fill(&mut door, u64::from(number)..u64::from(number) + 1, TCP, user, Standing::Stranger);
        }
        assert!(matches!(door.judge(TCP, Some(100_009), Standing::Stranger), Verdict::Close(_)));
        assert_eq!(door.judge(TCP, Some(1000), COMPLETE), Verdict::Enter, "who has a process here");
        assert_eq!(door.judge(TCP, Some(1000), WAITED_FOR), Verdict::Enter);
        door.heard(7);
        assert!(
            matches!(door.judge(TCP, Some(100_009), Standing::Stranger), Verdict::Close(_)),
            "it is still connected"
        );
        door.left(7);
        assert_eq!(door.judge(TCP, Some(100_009), Standing::Stranger), Verdict::Enter);
    }

    #[test]
    fn hosts_have_their_share_and_a_common_one_until_munge_tells_their_users() {
        let mut door = door();
        let host = |number: u8| IpAddr::from([10, 0, 0, number]);
        let enter = |door: &mut Door, token: u64, number: u8| {
            let deadline = Instant::now() + Duration::from_secs(30 + token);
            door.enter(token, Origin::Host(host(number)), None, COMPLETE, deadline);
        };
        (10..26).for_each(|token| enter(&mut door, token, 1));
        assert_eq!(door.judge_host(host(1)), Verdict::Replace(10));
        assert_eq!(door.judge_host(host(2)), Verdict::Enter, "each host for itself");
        // Whom munge has told is counted by user.
        assert_eq!(door.identify(10, Some(1000), COMPLETE), Verdict::Enter);
        assert_eq!(door.judge_host(host(1)), Verdict::Enter);
        // An eighth of the descriptors for all hosts.
        (26..51).for_each(|token| enter(&mut door, token, 2 + (token / 8) as u8));
        assert_eq!(door.from_hosts.len(), door.from_hosts_max);
        assert_eq!(door.judge_host(host(99)), Verdict::Replace(11));
        assert_eq!(door.judge(TCP, Some(1000), COMPLETE), Verdict::Enter, "loopback is another origin");
        assert!(matches!(door.identify(11, Some(2000), Standing::Nobody), Verdict::Close(_)));
        for token in 12..26 {
            assert_eq!(door.identify(token, Some(2000), Standing::Stranger), Verdict::Enter);
        }
        assert_eq!(door.identify(26, Some(2000), Standing::Stranger), Verdict::Enter);
        assert_eq!(door.identify(27, Some(2000), Standing::Stranger), Verdict::Enter);
        assert!(matches!(door.identify(28, Some(2000), Standing::Stranger), Verdict::Close(_)), "16 of a stranger");
        (10..51).for_each(|token| door.left(token));
        assert!(door.strangers.is_empty() && door.silent.is_empty() && door.guests.is_empty());
        assert!(door.from_hosts.is_empty() && door.strangers_count == 0);
    }

    #[test]
    fn short_descriptors_close_connections_of_the_user_most_above_its_share() {
        let mut door = door();
        let expected = |user: User| if user == Some(1000) { 30 } else { 0 };
        assert_eq!(door.dispensable(expected), None);
        fill(&mut door, 10..40, TCP, 1000, WAITED_FOR);
        assert_eq!(door.dispensable(expected), None, "as many as are to come");
        fill(&mut door, 40..45, UNIX, 2000, COMPLETE);
        fill(&mut door, 45..49, TCP, 1000, WAITED_FOR);
        assert_eq!(door.dispensable(expected), Some(40));
        assert!(!door.is_crowded());
        fill(&mut door, 49..62, TCP, 1000, WAITED_FOR);
        assert!(door.is_crowded());
        assert_eq!(door.dispensable(expected), Some(10));
    }

    #[test]
    fn the_time_of_those_that_say_nothing_ends() {
        let mut door = door();
        fill(&mut door, 10..13, TCP, 1000, WAITED_FOR);
        door.heard(10);
        let end = door.deadline().unwrap();
        assert_eq!((door.expired(end - Duration::from_millis(1)), door.expired(end)), (vec![], vec![11]));
    }

    #[test]
    fn the_reserve_is_spent_once() {
        let mut door = door();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!door.has_spent_reserve() && door.spend_reserve() && !door.spend_reserve());
        assert!(door.has_spent_reserve());
        door.restore_reserve(&listener).unwrap();
        assert!(door.spend_reserve());
    }
}
