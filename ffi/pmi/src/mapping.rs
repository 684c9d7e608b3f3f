//! Who is on which node, in the words of `PMI_process_mapping`.

/// A run of blocks: from this node on so many nodes, each with so many consecutive ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blocks {
    first: u32,
    nodes: u32,
    ranks: u32,
}

/// The nodes of the ranks, by rank, as `(vector,(FIRST,NODES,RANKS),...)`.
pub fn vector(nodes: &[u32]) -> String {
    let mut blocks: Vec<Blocks> = Vec::new();
    let same = |left: &u32, right: &u32| left == right;
    for run in nodes.chunk_by(same) {
        let (node, ranks) = (run[0], run.len() as u32);
        match blocks.last_mut() {
            Some(last) if last.ranks == ranks && last.first + last.nodes == node => last.nodes += 1,
            _ => blocks.push(Blocks { first: node, nodes: 1, ranks }),
        }
    }
    let blocks = blocks.iter().map(|block| format!(",({},{},{})", block.first, block.nodes, block.ranks));
    format!("(vector{})", blocks.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::vector;

    #[test]
    fn ranks_are_told_in_blocks() {
        for (nodes, text) in [
            (&[0, 0, 0, 0][..], "(vector,(0,1,4))"),
            (&[0, 0, 1, 1, 2, 2], "(vector,(0,3,2))"),
            (&[0, 1, 2, 0, 1, 2], "(vector,(0,3,1),(0,3,1))"),
            (&[0, 0, 1], "(vector,(0,1,2),(1,1,1))"),
            (&[1, 1, 0, 0], "(vector,(1,1,2),(0,1,2))"),
            (&[], "(vector)"),
        ] {
            assert_eq!(vector(nodes), text);
        }
    }
}
