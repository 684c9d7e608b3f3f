//! The server in a process of its own, which is started again when it ends before the launcher does.

use std::cell::RefCell;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use pmix_dstore::model::{Info, Status, Value, keys};

use super::super::host::RunHost;
use super::history::{History, IN_VAIN_MAX};
use super::life::{Gone, Life, PATIENCE, Start};
use super::message::{Order, Reply};
use super::registrations::Registrations;

/// The server. Only the launcher's main thread has it: a process ends with the thread that has started it.
pub(in super::super) struct Restartable {
    host: Arc<RunHost>,
    start: Start,
    infos: Vec<Info>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The process; none if the launcher has given up, or finalized it.
    life: Option<Life>,
    /// How many processes there have been.
    lives: u32,
    registrations: Registrations,
    history: History,
    /// The address, which the next server keeps.
    uri: String,
    /// What the user is to be told.
    lines: Vec<String>,
    /// Why there is no server any more.
    lost: Option<String>,
}

/// Why an order is not carried out: there is no server any more.
pub(in super::super) struct Lost;

impl Restartable {
    /// Starts the server with these attributes.
    ///
    /// # Errors
    /// A message for the user.
    pub fn begin(host: Arc<RunHost>, start: Start, infos: Vec<Info>) -> Result<Restartable, String> {
        let restartable = Restartable { host, start, infos, state: RefCell::default() };
        match restartable.begin_life() {
            Ok(()) => Ok(restartable),
            Err(Some(why)) => Err(why),
            // What kills the first one is the machine's: nothing that it is to serve.
            Err(None) => Err("the server did not start: its process has ended".into()),
        }
    }

    /// Starts a process with a server, which is told what the one before knew.
    ///
    /// # Errors
    /// Why there can be none; `None` if this one has ended.
    fn begin_life(&self) -> Result<(), Option<String>> {
        let state = &mut *self.state.borrow_mut();
        state.lives += 1;
        let words = |error| Some(format!("cannot start a process for the server: {error}"));
        let life = state.life.insert(Life::begin(state.lives, &self.start, &self.host).map_err(words)?);
        let mut infos = Info::copies(&self.infos).map_err(|status| Some(format!("the server: {status}")))?;
        let port = state.uri.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        infos.extend(port.map(|port| Info::new(keys::TCP_IPV4_PORT, Value::Uint16(port))));
        match life.ask(&Order::Begin { infos }, PATIENCE) {
            Ok(Reply::Started { uri }) => state.uri = uri,
            Ok(Reply::Failed(why)) => return Err(Some(why)),
            Ok(other) => return Err(Some(format!("the server did not start: {other:?}"))),
            Err(Gone) => return Err(None),
        }
        for order in state.registrations.orders() {
            // What was accepted once is not refused now, but for want of memory, which it says itself.
            life.ask(order, PATIENCE).map_err(|Gone| None)?;
        }
        Ok(())
    }

    /// The process has ended or is stuck: starts it again.
    ///
    /// # Errors
    /// The launcher gives up.
    fn revive(&self) -> Result<(), Lost> {
        loop {
            let Some(life) = self.state.borrow_mut().life.take() else { return Err(Lost) };
            let (lived, has_achieved) = (life.age(), life.has_achieved());
            // The host hears of it in this call.
            let what = life.end();
            let attempt = self.state.borrow_mut().history.ended(lived, has_achieved);
            let Some(attempt) = attempt else {
                return self.give_up(format!(
                    "{what}, as {IN_VAIN_MAX} before it in a row that had achieved nothing; it is not started again"
                ));
            };
            self.say(format!("{what}; starting it again, attempt {attempt}"));
            match self.begin_life() {
                Ok(()) => return Ok(()),
                Err(Some(why)) => return self.give_up(format!("the server is lost: {why}")),
                Err(None) => {}
            }
        }
    }

    fn give_up(&self, why: String) -> Result<(), Lost> {
        let mut state = self.state.borrow_mut();
        let life = state.life.take();
        state.lost.get_or_insert(why);
        drop(state);
        drop(life);
        Err(Lost)
    }

    fn say(&self, line: String) {
        self.state.borrow_mut().lines.push(line);
    }

    /// What is to be told to the user.
    pub fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().lines)
    }

    /// Why there is no server any more, if the launcher has given up.
    pub fn lost(&self) -> Option<String> {
        self.state.borrow().lost.clone()
    }

    /// The `number`th process has ended.
    pub fn has_ended(&self, number: u32) {
        // It may have been noticed before, by an order.
        let is_current = { self.state.borrow().life.is_some() && self.state.borrow().lives == number };
        if is_current {
            // Whoever needs the server sees that it is lost.
            let _ = self.revive();
        }
    }

    /// Gives an order, if need be to the next server, and waits for the reply.
    ///
    /// # Errors
    /// The launcher has given up.
    pub fn ask(&self, order: &Order) -> Result<Reply, Lost> {
        loop {
            let reply = self.state.borrow().life.as_ref().map(|life| life.ask(order, PATIENCE));
            match reply.ok_or(Lost)? {
                Ok(reply) => return Ok(reply),
                Err(Gone) => self.revive()?,
            }
        }
    }

    /// As [`Restartable::ask`], for what only informs: the server may be stuck, and is not waited for as long.
    pub fn ask_shortly(&self, order: &Order, patience: Duration) -> Option<Reply> {
        self.state.borrow().life.as_ref()?.ask(order, patience).ok()
    }

    /// Gives an order that each server must have carried out.
    pub fn register(&self, order: Order) -> Status {
        let status = match self.ask(&order) {
            Ok(Reply::Status(status)) => status,
            Ok(_) => Status::ERROR,
            Err(Lost) => return Status::ERR_LOST_CONNECTION,
        };
        if matches!(status, Status::SUCCESS | Status::OPERATION_SUCCEEDED) {
            self.state.borrow_mut().registrations.note(order);
        }
        status
    }

    /// Has each server write its address to a file.
    ///
    /// # Errors
    /// Why it is not written.
    pub fn report(&self, target: String) -> Result<(), String> {
        let order = Order::ReportUri { target };
        match self.ask(&order) {
            Ok(Reply::Status(_)) => self.state.borrow_mut().registrations.note(order),
            Ok(Reply::Failed(why)) => return Err(why),
            _ => return Err("the server is lost".into()),
        }
        Ok(())
    }

    /// Gives an order to forget something that it was told: if it has ended, the next one is not told of it.
    pub fn forget(&self, order: Order) {
        self.tell(&order);
        self.state.borrow_mut().registrations.note(order);
    }

    /// Gives an order without a reply. Returns whether it was given, or why not; what a server is told that ends at this moment is lost.
    pub fn tell(&self, order: &Order) -> Status {
        loop {
            let told = self.state.borrow().life.as_ref().map(|life| life.tell(order));
            match told {
                Some(Ok(status)) => return status,
                Some(Err(Gone)) if self.revive().is_ok() => {}
                _ => return Status::ERR_LOST_CONNECTION,
            }
        }
    }

    /// As [`Restartable::tell`], but to the `number`th process alone.
    pub fn tell_life(&self, number: u32, order: &Order) {
        let told = {
            let state = self.state.borrow();
            state.life.as_ref().filter(|_| state.lives == number).map(|life| life.tell(order))
        };
        if let Some(Err(Gone)) = told {
            // It has ended, or does not read. Whoever needs the server sees if it is lost.
            let _ = self.revive();
        }
    }

    /// How many processes there have been.
    pub fn lives(&self) -> u32 {
        self.state.borrow().lives
    }

    /// The server's address.
    pub fn uri(&self) -> String {
        self.state.borrow().uri.clone()
    }

    /// Ends the server in order.
    pub fn finalize(&self) {
        let life = self.state.borrow_mut().life.take();
        if let Some(life) = life {
            // One that is killed now has nobody to serve. Its files go with the launcher's directory.
            let _ = life.ask(&Order::Finalize, PATIENCE);
        }
    }
}

/// Variables of the server's process: ranks wait so long for the next server, whatever the launcher's environment says.
pub(super) fn variables(seconds: u32) -> Vec<(&'static str, OsString)> {
    const NAMED: &str = "PMIX_LAUNCHER_RENDEZVOUS_FILE";
    const BESIDE: &str = "PMIX_LAUNCHER_RNDZ_FILE";
    let mut variables = vec![("PMIX_DSTORE_RESTART", seconds.to_string().into())];
    // The attribute, which names another file, would count instead of the variable.
    if let Some(named) = std::env::var_os(NAMED).filter(|_| std::env::var_os(BESIDE).is_none()) {
        variables.push((BESIDE, named));
    }
    variables
}
