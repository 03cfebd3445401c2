// Package launch finds the processes that a launcher has started together.
package launch

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/mpi"
	"github.com/privgrad/privgrad/internal/usage"
)

// launchers say by a variable how many processes they have started. srun sets its own in the steps that it starts, and not
// in the script around them.
var launchers = []struct{ name, variable string }{
	{"Open MPI", "OMPI_COMM_WORLD_SIZE"},
	{"MPICH", "PMI_SIZE"},
	{"srun", "SLURM_STEP_NUM_TASKS"},
}

// TimeLimit is the variable of how long a process waits for the others, as 90s or 1h; ten minutes if it is empty.
const TimeLimit = "PRIVGRAD_RANK_TIMEOUT"

// Open gives the group of this process; nil where it is alone. Processes that cannot find each other are refused: each
// would train by itself, and charge its own ledger.
func Open(env func(string) string) (collective.Group, error) {
	limit := 10 * time.Minute
	if text := env(TimeLimit); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 {
			return nil, usage.Errorf("%s=%s: must be a time above 0, as 90s or 1h", TimeLimit, text)
		}
	}
	if n, _ := strconv.Atoi(env("WORLD_SIZE")); n > 1 && env("RANK") != "" && env("MASTER_ADDR") != "" {
		return nil, usage.Errorf("torchrun has started %d processes, which find each other by NCCL; this program has none: start it by mpirun -n %[1]d", n)
	}
	for _, l := range launchers {
		if n, _ := strconv.Atoi(env(l.variable)); n > 1 {
			g, err := mpi.Open(limit)
			if err != nil {
				return nil, usage.Errorf("%s has started %d processes: %w", l.name, n, err)
			}
			if g.Size() != n {
				return nil, fmt.Errorf("%s has started %d processes, and MPI knows of %d: start the program by the mpirun of the MPI that it was built with", l.name, n, g.Size())
			}
			return g, nil
		}
	}
	return nil, nil
}

// Close ends a group, nil where there is none, after what its processes have done.
func Close(g collective.Group, done error) error {
	if g == nil {
		return done
	}
	return errors.Join(done, g.Close())
}
