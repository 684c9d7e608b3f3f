//! A task of a parallel job that a resource manager has started without a PMIx server: each task is then a job of its own, and nothing
//! says so. Task 0 tells how to start them as one job.
//!
//! Variables prove it, and only those that the resource manager sets for each task by itself: other variables also exist in batch scripts
//! and in shells of an allocation, where a process is alone on purpose. `docs/admin.md` lists them.

use std::ffi::OsString;

/// Names, or beginnings of names, of variables that launchers and process managers set for a process: it was started by one of them. What
/// users and sites set (`PMIX_MCA_`, `PMIX_DSTORE_`, `OMPI_MCA_`, `PRTE_MCA_`, directories of installations) is not among them.
const OF_LAUNCHERS: [&str; 14] = [
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMIX_SERVER_",
    "PMI2_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "PRTE_LAUNCHED",
    "HYDI_",
    "MPIRUN_",
    "MV2_COMM_WORLD_",
    "PALS_",
    "JSM_",
];
/// What Open MPI 4.1 sets in its own process, before `PMIx_Init`, where it finds that `srun` has started it.
const OF_OPEN_MPI_ITSELF: [&str; 2] = ["OMPI_MCA_ess", "OMPI_MCA_orte_externally_bound"];
/// The same of PMI-1. Flux sets them for each task, whether the program knows PMI-1 or not.
const OF_PMI_1: &str = "PMI_";
/// Slurm's numbers of steps that are none of `srun`'s (batch, interactive, extern) begin here.
const SPECIAL_STEPS: u32 = 0xffff_fff0;

/// The variables of a process.
struct Variables(Vec<(String, String)>);

impl Variables {
    fn has(&self, beginning: &str) -> bool {
        self.0.iter().any(|(name, _)| name.starts_with(beginning))
    }

    fn number(&self, name: &str) -> Option<u32> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        value.parse().ok()
    }
}

/// What task 0 of a resource manager's job without a PMIx server has to tell its user; `None` for every other process.
pub fn advice(variables: impl Iterator<Item = (OsString, OsString)>) -> Option<String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let is_of_others = |(name, _): &(String, String)| !OF_OPEN_MPI_ITSELF.contains(&name.as_str());
    let variables = Variables(variables.filter_map(text).filter(is_of_others).collect());
    if OF_LAUNCHERS.iter().any(|beginning| variables.has(beginning)) {
        return None;
    }
    of_flux(&variables)
        .or_else(|| if variables.has(OF_PMI_1) { None } else { of_slurm(&variables).or_else(|| of_pbs(&variables)) })
}

/// `srun` sets these for the tasks of its steps. An interactive step and a batch script have one task, and numbers of steps that are special.
fn of_slurm(variables: &Variables) -> Option<String> {
    let tasks = variables.number("SLURM_STEP_NUM_TASKS").filter(|tasks| *tasks > 1)?;
    let step = variables.number("SLURM_STEP_ID").filter(|step| *step < SPECIAL_STEPS)?;
    variables.number("SLURM_PROCID").filter(|task| *task == 0)?;
    Some(format!(
        "task 0 of {tasks} of Slurm's step {step} has no PMIx server, so each task is a job of its own; srun --mpi=pmix starts them as one (srun --mpi=list shows whether this Slurm has it)"
    ))
}

/// The shell of Flux sets these for its tasks; the broker of a batch job takes them away from the script.
fn of_flux(variables: &Variables) -> Option<String> {
    let tasks = variables.number("FLUX_JOB_SIZE").filter(|tasks| *tasks > 1)?;
    variables.number("FLUX_TASK_RANK").filter(|task| *task == 0)?;
    Some(format!(
        "task 0 of {tasks} of a Flux job has no PMIx server, so each task is a job of its own; flux run -o pmi=pmix starts them as one, with the plugin of flux-pmix"
    ))
}

/// The script of a job is its task 1. What PBS starts beside it on other processors has higher numbers: `pbsdsh` has started it, or a
/// launcher, whose variables it has then. Releases that number the tasks of a `pbsdsh` do it in `PBS_VNODENUM`; of the others the first counts.
fn of_pbs(variables: &Variables) -> Option<String> {
    let task = variables.number("PBS_TASKNUM").filter(|task| *task > 1)?;
    variables.number("PBS_NODENUM").filter(|node| *node == 0)?;
    let is_first = variables.number("PBS_VNODENUM").map_or(task == 2, |number| number == 0);
    (is_first && variables.has("PBS_NODEFILE")).then(|| {
        format!(
        "PBS has started this process as task {task} of its job, and it has no PMIx server, so each task is a job of its own; mpirun of Open MPI in the job's script starts them as one"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(variables: &str) -> Option<String> {
        let variable = |word: &str| word.split_once('=').map(|(name, value)| (name.into(), value.into()));
        advice(variables.split_whitespace().filter_map(variable))
    }

    const SLURM: &str =
        "SLURM_JOB_ID=7 SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 SLURM_MPI_TYPE=none";
    const FLUX: &str = "FLUX_JOB_ID=f1 FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=0";
    const PBS: &str = "PBS_JOBID=1.n PBS_NODEFILE=/x PBS_NODENUM=0 PBS_TASKNUM=2 PBS_VNODENUM=0";

    #[test]
    fn task_0_of_several_tells_the_cure() {
        for (variables, cure) in [
            (SLURM, "srun --mpi=pmix"),
            (&format!("{SLURM} ORTE_SCHIZO_DETECTION=SLURM OMPI_MCA_ess=pmi OMPI_MCA_orte_externally_bound=1"), "srun"),
            (FLUX, "flux run -o pmi=pmix"),
            (&format!("{FLUX} PMI_FD=9 PMI_RANK=0 PMI_SIZE=2"), "flux run"),
            (PBS, "mpirun"),
            ("PBS_NODEFILE=/x PBS_NODENUM=0 PBS_TASKNUM=2", "mpirun"),
            (
                &format!("{SLURM} PMIX_MCA_gds=hash PMIX_DSTORE_LOG=warn OMPI_MCA_btl=tcp OMPI_HOME=/x PRTE_MCA_x=1"),
                "srun",
            ),
        ] {
            let line = said(variables).unwrap_or_else(|| panic!("nothing of {variables}"));
            assert!(line.contains(cure), "{line}");
        }
    }

    #[test]
    fn other_tasks_and_processes_that_are_alone_on_purpose_say_nothing() {
        let with = |all: &str, from: &str, to: &str| {
            assert!(all.contains(from), "{from}");
            all.replace(from, to)
        };
        for variables in [
            // The other tasks; steps of one task; batch and interactive steps; a number that is none.
            with(SLURM, "PROCID=0", "PROCID=1"),
            with(SLURM, "NUM_TASKS=4", "NUM_TASKS=1"),
            with(SLURM, "STEP_ID=3", "STEP_ID=4294967291"),
            with(SLURM, "STEP_ID=3", "STEP_ID=4294967290"),
            with(SLURM, "STEP_ID=3", "STEP_ID=batch"),
            with(SLURM, "SLURM_STEP_ID=3", ""),
            // A shell of salloc.
            "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=2".into(),
            with(FLUX, "RANK=0", "RANK=1"),
            with(FLUX, "SIZE=2", "SIZE=1"),
            // The script of a batch job of Flux; that of PBS; other tasks; a process on another node.
            "FLUX_URI=local:///x FLUX_ENCLOSING_ID=f1".into(),
            with(PBS, "TASKNUM=2", "TASKNUM=1"),
            with(PBS, "VNODENUM=0", "VNODENUM=1"),
            with(PBS, "PBS_NODENUM=0", "PBS_NODENUM=1"),
            "PBS_NODEFILE=/x PBS_NODENUM=0 PBS_TASKNUM=3".into(),
            with(PBS, "PBS_NODEFILE=/x", ""),
            String::new(),
        ] {
            assert_eq!(said(&variables), None, "{variables}");
        }
    }

    #[test]
    fn a_process_of_a_launcher_says_nothing() {
        const SET: [&str; 14] = [
            "PMIX_NAMESPACE=job",
            "PMIX_RANK=0",
            "PMIX_SERVER_URI41=x",
            "PMI2_RANK=0",
            "OMPI_COMM_WORLD_SIZE=2",
            "OMPI_UNIVERSE_SIZE=2",
            "OMPI_MCA_ess_base_jobid=1",
            "OMPI_MCA_orte_tmpdir_base=/x",
            "PRTE_LAUNCHED=1",
            "HYDI_CONTROL_FD=7",
            "MPIRUN_RANK=0",
            "MV2_COMM_WORLD_RANK=0",
            "PALS_RANKID=0",
            "JSM_NAMESPACE_RANK=0",
        ];
        for all in [SLURM, FLUX, PBS] {
            for variable in SET {
                assert_eq!(said(&format!("{all} {variable}")), None, "{all} {variable}");
            }
        }
        for all in [SLURM, PBS] {
            assert_eq!(said(&format!("{all} PMI_FD=9")), None, "{all}");
        }
    }
}
