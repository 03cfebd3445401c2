package privgrad_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The shipped command runs private data. What tests are made of, and what a developer looks at a GPU's kernels with,
// is no part of it: no simulated driver, no interpreter of kernels, no model of a GPU.
func TestImportsOfTheProduct(t *testing.T) {
	machinery := []string{"internal/cuda/driver/fake", "internal/cuda/model", "internal/collective/local", "internal/cpu/vec/guard", "internal/ptx", "internal/sass"}
	for _, tags := range []string{"", "gocuda", "mpi", "noasm"} {
		for _, dep := range linked(t, "./cmd/privgrad", tags) {
			in, ours := strings.CutPrefix(dep, module+"/")
			if ours && (slices.Contains(machinery, in) || strings.HasSuffix(in, "test")) || under(dep, "testing") || strings.HasPrefix(dep, "net/http/httptest") {
				t.Errorf("with tags %q, privgrad links %s, which is for tests and developers' tools", tags, dep)
			}
		}
	}
	// The names are those of packages that there are: the tool needs most of them.
	tool := linked(t, "./cmd/gpumodel", "")
	for _, p := range []string{"internal/cuda/driver/fake", "internal/cuda/model", "internal/ptx", "internal/sass"} {
		if !slices.Contains(tool, module+"/"+p) {
			t.Errorf("gpumodel does not need %s: the name looked for is out of date", p)
		}
	}
}

// A program that trains needs no command line and draws nothing: what package train imports, directly or not,
// holds neither. Package report draws, and only who imports it pays for that.
func TestTrainIsLight(t *testing.T) {
	for _, dep := range linked(t, "./train", "") {
		for _, heavy := range []string{"gonum.org/v1/plot", "github.com/spf13/", "progressbar", "golang.org/x/term", "golang.org/x/image", module + "/report", module + "/internal/cli"} {
			if strings.Contains(dep, heavy) {
				t.Errorf("train needs %s", dep)
			}
		}
	}
}

// linked are all packages that one is linked with.
func linked(t *testing.T, of, tags string) []string {
	t.Helper()
	sources(t) // go test then runs this again where one of them changed, as it does not see what go list reads
	out, err := exec.Command("go", "list", "-deps", "-tags", tags, of).Output()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(out))
	if len(all) < 100 || !slices.Contains(all, module+"/internal/plan") {
		t.Fatalf("%s needs %d packages: not all were found", of, len(all))
	}
	return all
}
