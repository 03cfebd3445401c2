package timing

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Process runs a command on so many threads and gives what it prints. The
// error of one that fails ends in the last line that it complained in.
func Process(ctx context.Context, threads int, command []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	n := strconv.Itoa(threads)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS="+n, "MKL_NUM_THREADS="+n, "OPENBLAS_NUM_THREADS="+n, "GOMAXPROCS="+n, "PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := startPinned(cmd, threads)
	if err == nil {
		err = cmd.Wait()
	}
	if err == nil {
		return stdout.Bytes(), nil
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		const most = 200
		if r := []rune(last); len(r) > most {
			last = string(r[:most]) + "…"
		}
		return nil, fmt.Errorf("%w: %s", err, last)
	}
	return nil, err
}
