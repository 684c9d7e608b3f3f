//! What a server was told and the next one must be told, too.

use pmix_dstore::model::Nspace;

use super::message::Order;

/// Registrations, in their order.
#[derive(Default)]
pub(super) struct Registrations {
    orders: Vec<Order>,
}

impl Registrations {
    /// The registrations for the next server. A process that has ended is registered and deregistered: the number of processes of its job
    /// counts it.
    pub fn orders(&self) -> &[Order] {
        &self.orders
    }

    /// A server has carried out an order.
    pub fn note(&mut self, order: Order) {
        match &order {
            Order::RegisterNspace { .. }
            | Order::RegisterClient { .. }
            | Order::DeregisterClient { .. }
            | Order::ReportUri { .. } => {}
            Order::DefineSet { name, .. } => {
                self.orders.retain(|order| !matches!(order, Order::DefineSet { name: other, .. } if other == name));
            }
            Order::DeleteSet { name } => {
                return self
                    .orders
                    .retain(|order| !matches!(order, Order::DefineSet { name: other, .. } if other == name));
            }
            Order::DeregisterNspace { nspace } => {
                return self.orders.retain(|order| nspace_of(order) != Some(nspace));
            }
            _ => return,
        }
        self.orders.push(order);
    }
}

/// The namespace that is registered, or whose process is. Process sets have several.
fn nspace_of(order: &Order) -> Option<&Nspace> {
    match order {
        Order::RegisterNspace { nspace, .. } => Some(nspace),
        Order::RegisterClient { proc, .. } | Order::DeregisterClient { proc } => Some(&proc.nspace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use pmix_dstore::model::{Proc, Rank};

    use super::*;

    fn job(name: &str) -> Nspace {
        Nspace::new(name).unwrap()
    }

    fn proc(name: &str) -> Proc {
        Proc::new(job(name), Rank(0))
    }

    #[test]
    fn the_next_server_is_told_what_still_holds() {
        let nspace = |name| Order::RegisterNspace { nspace: job(name), size: 1, infos: Vec::new() };
        let client = |name| Order::RegisterClient { proc: proc(name), uid: 1, gid: 1, object: 0 };
        let set = |name: &CStr, of: &str| Order::DefineSet { name: name.into(), members: vec![proc(of)] };
        let mut told = Registrations::default();
        for name in ["a", "b"] {
            told.note(nspace(name));
            told.note(client(name));
            told.note(set(c"one", name));
        }
        told.note(set(c"two", "a"));
        told.note(Order::DeregisterClient { proc: proc("b") });
        told.note(Order::Settle);
        let deregistered = Order::DeregisterClient { proc: proc("b") };
        let rest = [nspace("b"), client("b"), set(c"one", "b"), set(c"two", "a"), deregistered];
        assert!(told.orders().iter().eq([nspace("a"), client("a")].iter().chain(&rest)), "{:?}", told.orders());
        told.note(Order::DeregisterNspace { nspace: job("b") });
        told.note(Order::DeleteSet { name: c"two".into() });
        assert_eq!(told.orders(), [nspace("a"), client("a"), set(c"one", "b")]);
    }
}
