//! Which form this server's contributions to fences have: that of released libraries, or that of columns (`docs/modex-format.md`).
//!
//! Only servers of this library read columns. Each contribution in the released form announces that its server reads them, by the value of
//! [`super::server_mark::MARK`]; a contribution in columns announces the same. A server sends columns in a fence if in an earlier one all
//! servers of the same set of nodes have announced. So the first exchange of each set of nodes has the released form, and in
//! a set with a server of another library all exchanges have. A contribution names its form, so servers need not choose alike:
//! one that has started anew, that gave a fence up before its end, or that does not know the nodes sends the released form beside columns.
//!
//! Nothing tells a server that another one was replaced since. If a contribution that announces nothing comes beside columns, its
//! server is of another library and has refused the fence, which it could not read. Then the servers of this library refuse it as well, so
//! that nobody believes to have exchanged values, and send the released form from then on. What they sent counts as not delivered.

use pmix_dstore::model::{Nspace, Proc, Rank, Result, Status, keys};
use pmix_wire::blob::{Contribution, Form};

use super::Engine;

/// Limits of the remembered sets of nodes, and of the nodes in all of them. Beyond them the oldest set is forgotten: its next exchange has
/// the released form.
const SETS_MAX: usize = 64;
const NODES_MAX: usize = 1 << 16;

/// The sets of nodes that have had an exchange, and whether all their servers have announced; the oldest is the first.
#[derive(Default)]
pub(super) struct Sets(Vec<(Vec<Vec<u8>>, bool)>);

impl Sets {
    /// Whether all servers of these nodes have announced; `None` if that is not known yet.
    pub fn get(&self, nodes: &[&[u8]]) -> Option<bool> {
        self.0.iter().find(|(set, _)| set == nodes).map(|(_, agreed)| *agreed)
    }

    /// Notes whether they have.
    pub fn set(&mut self, nodes: Vec<Vec<u8>>, agreed: bool) {
        self.0.retain(|(set, _)| *set != nodes);
        let mut all = nodes.len() + self.0.iter().map(|(set, _)| set.len()).sum::<usize>();
        while !self.0.is_empty() && (self.0.len() == SETS_MAX || all > NODES_MAX) {
            all -= self.0.remove(0).0.len();
        }
        if all <= NODES_MAX {
            self.0.push((nodes, agreed));
        }
    }

    /// How many sets are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Engine {
    /// Whether the contribution to a fence of these participants may be in columns.
    pub(super) fn sends_columns(&self, signature: &[Proc]) -> bool {
        self.node_names(signature).and_then(|nodes| self.forms.get(&nodes)) == Some(true)
    }

    /// The names of the nodes on which these processes run, sorted. `None` if they are not known, or if it is one.
    fn node_names(&self, signature: &[Proc]) -> Option<Vec<&[u8]>> {
        let mut nodes: Vec<&[u8]> = Vec::new();
        for Proc { nspace, rank } in signature {
            if *rank == Rank::WILDCARD {
                nodes.extend(self.nspaces.get(nspace)?.job.nodes.iter().map(|node| node.hostname.as_slice()));
            } else {
                nodes.push(self.node_of(nspace, *rank)?);
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        (nodes.len() > 1).then_some(nodes)
    }

    /// The name of the node of a rank.
    fn node_of(&self, nspace: &Nspace, rank: Rank) -> Option<&[u8]> {
        self.nspaces.get(nspace)?.job.procs.get(rank, keys::HOSTNAME.as_bytes())?.as_text()
    }

    /// Takes notice of the forms of a fence's contributions. `announced` says of each whether it had the announcement, `origins` are the
    /// processes of their first values.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if one is in columns and the server of another one does not read these.
    pub(super) fn note_forms(
        &mut self,
        signature: &[Proc],
        contributions: &[Contribution],
        announced: &[bool],
        origins: &[Option<Proc>],
    ) -> Result<()> {
        let is_columns = |contribution: &Contribution| contribution.form == Form::Columns;
        let reads = |number: usize| announced[number] || is_columns(&contributions[number]);
        let others: Vec<usize> = (0..contributions.len()).filter(|number| !reads(*number)).collect();
        let name =
            |number: usize| origins[number].as_ref().and_then(|Proc { nspace, rank }| self.node_of(nspace, *rank));
        let names: Vec<_> = others.iter().filter_map(|number| name(*number)).map(String::from_utf8_lossy).collect();
        let refused = (!others.is_empty() && contributions.iter().any(is_columns)).then(|| names.join(" "));
        if let Some(nodes) = self.node_names(signature) {
            let agreed = if others.is_empty() { self.is_each_node_there(&nodes, origins) } else { Some(false) };
            if let Some(agreed) = agreed.filter(|_| agreed != self.forms.get(&nodes)) {
                let nodes = nodes.into_iter().map(<[u8]>::to_vec).collect();
                self.forms.set(nodes, agreed);
            }
        }
        let Some(names) = refused else { return Ok(()) };
        self.log(format!(
            "a fence failed: the server of {names} has been replaced by one that cannot read what the others sent; the next ones have the \
             form of released libraries"
        ));
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Whether contributions whose first values are of `origins` are one of each node. `None` if there are too few: a node whose processes
    /// have all ended contributes nothing.
    fn is_each_node_there(&self, nodes: &[&[u8]], origins: &[Option<Proc>]) -> Option<bool> {
        if origins.len() < nodes.len() {
            return None;
        }
        // One without values has no origin.
        let known = origins.iter().flatten();
        let mut seen: Vec<_> = known.clone().filter_map(|Proc { nspace, rank }| self.node_of(nspace, *rank)).collect();
        seen.sort_unstable();
        seen.dedup();
        let is_of_set = seen.iter().all(|node| nodes.binary_search(node).is_ok());
        Some(origins.len() == nodes.len() && seen.len() == known.count() && is_of_set)
    }
}
