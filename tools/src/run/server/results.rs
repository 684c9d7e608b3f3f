//! Answers of the host, and reports of the server, as the two processes send them to each other.

use std::time::Duration;

use pmix_client::inspection::{Collective, Wait};
use pmix_dstore::codec::{Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Result, Status};
use pmix_server::{Completion, Stats, UpcallResult, Waiting};

use super::fields::{object, pack_nspace, pack_text, text};

pub(super) fn pack_upcall(to: &mut Packer, result: &UpcallResult) -> Result<()> {
    let mut head = |code, status| {
        to.byte(code);
        to.status(status);
    };
    match result {
        UpcallResult::Op(status) => head(0, *status),
        UpcallResult::Infos(status, infos) => {
            head(1, *status);
            to.infos(infos)?;
        }
        UpcallResult::Spawn(status, nspace) => {
            head(2, *status);
            to.bool(nspace.is_some());
            nspace.iter().try_for_each(|nspace| pack_nspace(to, nspace))?;
        }
        UpcallResult::Name(status, name) => {
            head(3, *status);
            to.bool(name.is_some());
            name.iter().for_each(|name| to.proc(name));
        }
        UpcallResult::Lookup(status, data) => {
            head(4, *status);
            to.size(data.len() as u64);
            if !data.is_empty() {
                to.pdata(data)?;
            }
        }
        UpcallResult::Credential(status, (credential, infos)) => {
            head(5, *status);
            to.byte_object(credential)?;
            to.infos(infos)?;
        }
        // Of fences with other servers and direct modex, which do not come here.
        UpcallResult::Data(..) => head(0, Status::ERR_NOT_SUPPORTED),
    }
    Ok(())
}

pub(super) fn upcall(from: &mut Unpacker<'_>) -> Result<UpcallResult> {
    let (code, status) = (from.byte()?, from.status()?);
    Ok(match code {
        0 => UpcallResult::Op(status),
        1 => UpcallResult::Infos(status, from.infos()?),
        2 => UpcallResult::Spawn(status, if from.bool()? { Some(from.nspace()?) } else { None }),
        3 => UpcallResult::Name(status, if from.bool()? { Some(from.proc()?) } else { None }),
        4 => {
            let count = from.count()?;
            UpcallResult::Lookup(status, if count == 0 { Vec::new() } else { from.pdata(count)? })
        }
        5 => UpcallResult::Credential(status, (object(from)?, from.infos()?)),
        _ => return Err(Status::ERR_UNPACK_FAILURE),
    })
}

/// Answers an upcall of the server of this process.
pub(super) fn answer(id: u64, result: UpcallResult) {
    match result {
        UpcallResult::Op(status) => Completion::<Status>::by_id(id).complete(status),
        UpcallResult::Data(status, data) => Completion::by_id(id).complete((status, data)),
        UpcallResult::Lookup(status, data) => Completion::by_id(id).complete((status, data)),
        UpcallResult::Spawn(status, nspace) => Completion::by_id(id).complete((status, nspace)),
        UpcallResult::Name(status, name) => Completion::by_id(id).complete((status, name)),
        UpcallResult::Infos(status, infos) => Completion::by_id(id).complete((status, infos)),
        UpcallResult::Credential(status, credential) => Completion::by_id(id).complete((status, credential)),
    }
}

fn pack_time(to: &mut Packer, time: Duration) {
    to.uint64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

fn time(from: &mut Unpacker<'_>) -> Result<Duration> {
    Ok(Duration::from_nanos(from.uint64()?))
}

pub(super) fn pack_waiting(to: &mut Packer, waiting: &Waiting) -> Result<()> {
    to.size(waiting.collectives.len() as u64);
    for Collective { operation, procs, named, age, entered, absent, at_host } in &waiting.collectives {
        pack_text(to, operation)?;
        to.procs(procs)?;
        to.uint64(*named);
        pack_time(to, *age);
        to.procs(entered)?;
        to.procs(absent)?;
        to.bool(*at_host);
    }
    to.size(waiting.gets.len() as u64);
    for Wait { asker, of, key, age, at_host } in &waiting.gets {
        to.proc(asker);
        to.proc(of);
        to.bool(key.is_some());
        pack_text(to, key.as_deref().unwrap_or_default())?;
        pack_time(to, *age);
        to.bool(*at_host);
    }
    Ok(())
}

pub(super) fn waiting(from: &mut Unpacker<'_>) -> Result<Waiting> {
    let mut waiting = Waiting::default();
    for _ in 0..from.count()? {
        let collective = Collective {
            operation: text(from)?,
            procs: from.procs()?,
            named: from.uint64()?,
            age: time(from)?,
            entered: from.procs()?,
            absent: from.procs()?,
            at_host: from.bool()?,
        };
        fallible_alloc::push(&mut waiting.collectives, collective)?;
    }
    for _ in 0..from.count()? {
        let (asker, of, has_key, key) = (from.proc()?, from.proc()?, from.bool()?, text(from)?);
        let wait = Wait { asker, of, key: has_key.then_some(key), age: time(from)?, at_host: from.bool()? };
        fallible_alloc::push(&mut waiting.gets, wait)?;
    }
    Ok(waiting)
}

pub(super) fn pack_stats(to: &mut Packer, stats: &Stats) {
    let Stats { job_segment_bytes, modex_segment_bytes, segments, .. } = *stats;
    let Stats { clients_shared, clients_socket, gets, fences, connected, wireup, .. } = *stats;
    for number in [job_segment_bytes, modex_segment_bytes, segments, clients_shared, clients_socket, gets, fences] {
        to.uint64(number);
    }
    for time in [connected, wireup] {
        to.bool(time.is_some());
        pack_time(to, time.unwrap_or_default());
    }
}

fn optional_time(from: &mut Unpacker<'_>) -> Result<Option<Duration>> {
    let (is_some, time) = (from.bool()?, time(from)?);
    Ok(is_some.then_some(time))
}

pub(super) fn stats(from: &mut Unpacker<'_>) -> Result<Stats> {
    Ok(Stats {
        job_segment_bytes: from.uint64()?,
        modex_segment_bytes: from.uint64()?,
        segments: from.uint64()?,
        clients_shared: from.uint64()?,
        clients_socket: from.uint64()?,
        gets: from.uint64()?,
        fences: from.uint64()?,
        connected: optional_time(from)?,
        wireup: optional_time(from)?,
    })
}
