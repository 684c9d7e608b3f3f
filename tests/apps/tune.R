# irace looks for the least value of a function, which processes evaluate that it starts with MPI_Comm_spawn.
suppressPackageStartupMessages(library(irace))
parameters <- readParameters(text = 'x "" r (0.00, 1.00)
y "" i (1, 9)')
target <- function(experiment, scenario) {
  at <- experiment$configuration
  list(cost = (at[["x"]] - 0.3)^2 + (at[["y"]] - 4)^2 + experiment$id.instance / 100)
}
scenario <- defaultScenario(list(targetRunner = target, instances = 1:5, maxExperiments = 200, seed = 1234567,
  parallel = 3, mpi = TRUE, logFile = "", debugLevel = 0))
sink(nullfile())
best <- irace(scenario = scenario, parameters = parameters)
sink()
print(best[, c("x", "y")])
