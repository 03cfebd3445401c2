package launch

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/collective/mpi"
)

// torchrun is what it sets for the second of two processes, but for one variable.
func torchrun(name, value string) map[string]string {
	env := map[string]string{"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
	env[name] = value
	return env
}

func TestLaunchers(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string // of the error
	}{
		{nil, ""},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "1"}, ""},
		{map[string]string{"SLURM_NTASKS": "4"}, ""}, // the script, not a step of it
		{map[string]string{"WORLD_SIZE": "4"}, ""},
		{map[string]string{"WORLD_SIZE": "0x4"}, "WORLD_SIZE=0x4: must be a whole number in decimal digits"}, // each process would train by itself
		{map[string]string{"PMI_SIZE": "1_0"}, "PMI_SIZE=1_0: must be a whole number in decimal digits"},
		{map[string]string{"SLURM_STEP_NUM_TASKS": "02"}, "srun has started 2 processes"},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}, "Open MPI has started 4 processes: this program was built without MPI"},
		{map[string]string{TimeLimit: "soon"}, "PRIVGRAD_RANK_TIMEOUT=soon"},
		{map[string]string{TimeLimit: "2m"}, ""},
		{map[string]string{"PMI_SIZE": "2"}, "MPICH has started 2 processes"},
		{map[string]string{"SLURM_STEP_NUM_TASKS": "3"}, "srun has started 3 processes"},
		{torchrun("RANK", "1"), "torchrun has started 2 processes, which need a GPU each and NCCL: "},
		{torchrun("RANK", "2"), "RANK=2: must be below WORLD_SIZE, which is 2"},
		{torchrun("LOCAL_RANK", ""), "LOCAL_RANK=: must be a whole number"},
		{torchrun("MASTER_PORT", "-1"), "MASTER_PORT=-1: must be a whole number"},
	} {
		if mpi.Built && strings.Contains(c.want, "MPI") {
			continue // which would start it
		}
		g, err := Open(func(name string) string { return c.env[name] })
		if c.want == "" && (g != nil || err != nil) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, %v", c.env, g, err)
		}
	}
}
