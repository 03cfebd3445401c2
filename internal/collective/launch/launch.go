// Package launch finds the processes that a launcher has started together.
package launch

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/mpi"
	"github.com/privgrad/privgrad/internal/collective/nccl"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
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
	n, err := started(env, "WORLD_SIZE")
	if err != nil {
		return nil, err
	}
	if n > 1 && env("RANK") != "" && env("MASTER_ADDR") != "" {
		g, err := openNCCL(env, n, limit)
		if err != nil {
			return nil, usage.Errorf("torchrun has started %d processes, which need a GPU each and NCCL: %w", n, err)
		}
		return g, nil
	}
	for _, l := range launchers {
		if n, err = started(env, l.variable); err != nil {
			return nil, err
		}
		if n > 1 {
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

// started is how many processes a variable says were started; 0 if it is empty.
func started(env func(string) string, variable string) (int, error) {
	text := env(variable)
	if text == "" {
		return 0, nil
	}
	n, err := written.Whole(text)
	if err != nil {
		return 0, usage.Errorf("%s=%s: must be a whole number in decimal digits, the number of processes", variable, text)
	}
	return n, nil
}

// openNCCL joins the group of the processes that torchrun has started.
func openNCCL(env func(string) string, size int, limit time.Duration) (collective.Group, error) {
	o := nccl.Options{Size: size, Limit: limit}
	number := map[string]int{}
	for _, name := range []string{"RANK", "LOCAL_RANK", "MASTER_PORT"} {
		n, err := written.Whole(env(name))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s=%s: must be a whole number, which torchrun sets", name, env(name))
		}
		number[name] = n
	}
	if o.Rank = number["RANK"]; o.Rank >= size {
		return nil, fmt.Errorf("RANK=%d: must be below WORLD_SIZE, which is %d", o.Rank, size)
	}
	port := number["MASTER_PORT"]
	if env("TORCHELASTIC_USE_AGENT_STORE") == "True" {
		port++ // torchrun itself listens at the port
	}
	o.Address = net.JoinHostPort(env("MASTER_ADDR"), strconv.Itoa(port))
	d, err := cudrv.Open()
	if err != nil {
		return nil, err
	}
	if o.GPU, err = nccl.Choose(d, number["LOCAL_RANK"]); err != nil {
		return nil, err
	}
	return nccl.Open(d, o)
}

// Close ends a group, nil where there is none, after what its processes have done.
func Close(g collective.Group, done error) error {
	if g == nil {
		return done
	}
	return errors.Join(done, g.Close())
}
