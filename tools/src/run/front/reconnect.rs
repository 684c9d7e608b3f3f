//! Reconnects to a persistent launcher whose server was killed, and that starts another one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::gethostname;
use pmix_client::Client;
use pmix_client::tool::has_ended;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{App, Info, Nspace, Proc, Status, Value, keys};

use super::super::acknowledged;
use super::super::args::Dvm;
use super::super::complain;
use super::super::job::{name_prefix, node_name};
use super::{Front, News, Teller, connect, hear, write_output};

/// The pauses between two attempts: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// Every so many attempts the launcher is looked up instead of dialled at its previous address.
const OTHERWISE: u32 = 8;

/// How long another program at the launcher's address may say nothing.
const DIAL_TIME: Duration = Duration::from_secs(5);

/// How the launcher is reached.
#[derive(Clone)]
pub(super) struct Way {
    pub dvm: Dvm,
    /// The address of the launcher's server on its node.
    pub address: Option<String>,
    pub is_tagged: bool,
    pub teller: Teller,
}

impl Front {
    /// The connection is lost.
    pub(super) fn reconnect(&mut self) {
        let Some(seconds) = self.seconds else { return self.is_gone() };
        self.is_away = true;
        *self.current.lock() = None;
        let (way, former, job) = (self.way.clone(), Arc::clone(&self.client), self.job.nspace.clone());
        let body = move || {
            let news = match way.reach(&former, &job, Duration::from_secs(seconds.into())) {
                Some((client, connection, written)) => News::Reconnected(Arc::new(client), connection, written),
                None => News::NotReconnected,
            };
            way.teller.tell(news);
        };
        if fallible_alloc::spawn("pmixrun-reconnect", body).is_err() {
            self.is_gone();
        }
    }

    /// There is a connection again; the launcher knows that so much output was written.
    pub(super) fn has_reconnected(&mut self, client: Arc<Client>, connection: u32, said: u64) {
        self.way.teller.connection = connection;
        self.client = client;
        (self.is_away, self.said) = (false, said);
        if self.last_lost == connection {
            return self.reconnect();
        }
        *self.current.lock() = Some(Arc::clone(&self.client));
        if self.signal.is_some() && self.job_end.is_none() {
            // Perhaps it was asked for in vain.
            self.control(Info::new(keys::JOB_CTRL_TERMINATE, Value::Bool(true)));
        }
    }

    /// The launcher is not reached any more.
    pub(super) fn is_gone(&mut self) {
        if self.job_end.is_some() {
            self.ended = self.job_end;
            return;
        }
        complain("the persistent pmixrun is gone, and with it the job");
        self.ended = Some(1);
    }
}

impl Way {
    /// Connects again, with the former name and for the same job. Returns also the number of the connection, and how much output was written
    /// then.
    fn reach(&self, former: &Client, job: &Nspace, patience: Duration) -> Option<(Client, u32, u64)> {
        // Afterwards all output that has come is written, and counted.
        let _ = former.finalize(&[]);
        let until = Instant::now() + patience;
        let [mut pause, longest] = PAUSES;
        let mut attempt = 0;
        while may_live(job) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            attempt += 1;
            let teller = Teller { connection: self.teller.connection + attempt, ..self.teller.clone() };
            let connection = teller.connection;
            match self.attempt(former.me(), job, (attempt, left), &teller) {
                Ok((client, written)) => return Some((client, connection, written)),
                // The launcher is there, and has ended the job.
                Err(Status::ERR_NOT_FOUND) => return None,
                Err(_) => thread::sleep(pause),
            }
            pause = (2 * pause).min(longest);
        }
        None
    }

    fn attempt(
        &self,
        me: &Proc,
        job: &Nspace,
        (attempt, left): (u32, Duration),
        teller: &Teller,
    ) -> Result<(Client, u64), Status> {
        let timeout = |time: Duration| {
            Info::new(keys::TIMEOUT, Value::Int(i32::try_from(time.as_secs() + 1).unwrap_or(i32::MAX)))
        };
        let for_dial = || timeout(left.min(DIAL_TIME));
        let named = [
            Info::new(keys::TOOL_NSPACE, Value::string(me.nspace.as_bytes())),
            Info::new(keys::TOOL_RANK, Value::Rank(me.rank)),
            for_dial(),
        ];
        let client = self.connect(job, &named, attempt).ok_or(Status::ERR_UNREACH)?;
        let written = teller.written.load(Ordering::Acquire);
        let heard = hear(&client, teller.clone(), vec![for_dial()]).map_err(|_| Status::ERR_UNREACH);
        let resumed = heard.and_then(|()| {
            write_output(&client, self.is_tagged, teller.clone());
            // A spawn names a program; this one starts none.
            let nothing = App {
                cmd: Some(c"true".into()),
                argv: Vec::new(),
                env: Vec::new(),
                cwd: None,
                maxprocs: 1,
                infos: Vec::new(),
            };
            let mut infos = acknowledged::resuming(job, written);
            infos.push(timeout(left));
            client.spawn(infos, vec![nothing]).wait()
        });
        match resumed {
            Ok(resumed) if resumed == *job => Ok((client, written)),
            other => {
                let status = other.err().unwrap_or(Status::ERR_UNREACH);
                if status == Status::ERR_TIMEOUT {
                    // The launcher may still take the spawn. It then sees that this process is gone, which a farewell before would hide.
                    return Err(status);
                }
                // Also this one may have written something.
                let _ = client.finalize(&[]);
                Err(status)
            }
        }
    }

    /// By the address that the server had, which the next one has, too, if it can; at times as the user has named it, or by its name. A search
    /// of the files would say each time that they lead to a server that has ended. By now another server may be there: then there is none.
    fn connect(&self, job: &Nspace, named: &[Info], attempt: u32) -> Option<Client> {
        let launcher = launcher_of(job)?;
        let dial = |dvm: &Dvm| {
            let (client, server) = connect(dvm, named).ok()?;
            if server.is_some_and(|server| server.nspace.as_bytes() == launcher.as_bytes()) {
                return Some(client);
            }
            let _ = client.finalize(&[]);
            None
        };
        let address = self.address.clone().filter(|_| is_of_this_host(job));
        match address {
            Some(address) if !attempt.is_multiple_of(OTHERWISE) => dial(&Dvm::Uri(address)),
            _ => dial(&self.dvm).or_else(|| dial(&Dvm::Nspace(launcher.clone()))),
        }
    }
}

/// The namespace of the launcher of a job, with which the job's begins.
fn launcher_of(job: &Nspace) -> Option<String> {
    Some(job.to_string().rsplit_once('.')?.0.to_owned())
}

/// The process of the launcher of a job, if that is one of this host.
fn process_of(job: &Nspace) -> Option<i32> {
    let host = gethostname().unwrap_or_default().to_string_lossy().into_owned();
    launcher_of(job)?.strip_prefix(&name_prefix(&node_name(&host)))?.parse().ok()
}

fn is_of_this_host(job: &Nspace) -> bool {
    process_of(job).is_some()
}

/// Whether the launcher of a job may live: one of another host is not looked for.
fn may_live(job: &Nspace) -> bool {
    process_of(job).is_none_or(|pid| !has_ended(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_of_this_host_is_looked_for() {
        let host = gethostname().unwrap().to_string_lossy().split('.').next().unwrap().to_owned();
        let job = |host: &str, pid: u32| Nspace::new(format!("run-{host}-{pid}.job7")).unwrap();
        assert!(may_live(&job(&host, std::process::id())));
        assert!(!may_live(&job(&host, i32::MAX as u32)));
        assert!(may_live(&job("elsewhere", i32::MAX as u32)), "nobody can tell");
        assert_eq!(launcher_of(&job("n1", 7)).as_deref(), Some("run-n1-7"));
    }
}
