package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/papers"
)

func TestReproduce(t *testing.T) {
	t.Setenv(config.DataDirVariable, "")
	list := object(t, ok(t, "reproduce", "list", "--json"))
	if n := len(list["figures"].([]any)); n != len(papers.Figures()) {
		t.Errorf("%d figures are listed", n)
	}
	human := ok(t, "reproduce")
	help := ok(t, "reproduce", "--help")
	for _, f := range papers.Figures() {
		for _, text := range []string{human, help} {
			if !strings.Contains(text, "  "+f.Name+" ") || !strings.Contains(text, f.Short) {
				t.Errorf("%s is not listed in\n%s", f.Name, text)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "figures")
	fails(t, cli.ExitUsage, []string{"reproduce", "fig9", "--out", out}, "fig9", "rates")
	fails(t, cli.ExitUsage, []string{"reproduce", "fig1", "fig2", "--out", out}, "one name")
	fails(t, cli.ExitUsage, []string{"reproduce", "rates", "--seeds", "-1", "--out", out}, "seeds -1")
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused command left a directory")
	}
	r := privgrad("reproduce", "fig1", "--out", out, "--progress", "off")
	if r.code != cli.ExitUsage || !strings.Contains(r.stderr, "adult.data") || r.stdout != "" {
		t.Errorf("without data: exit %d, %q, %q", r.code, r.stdout, r.stderr)
	}
}

func TestReproduceSaysWhatItIs(t *testing.T) {
	var b strings.Builder
	describeFigure(&b, &reproduce.Summary{
		Figure: "fig3", Runs: 2, Seeds: 1, NoGuarantee: []string{reproduce.DeclaredPublic}, Labels: []string{"QUICK"}, Skipped: []string{"dp-x is left out"},
		Claims: []reproduce.Claim{{Claim: "a is better", Found: "it is not", Verdict: "contradicts"}}, CSV: "a.csv",
	})
	for _, want := range []string{"NO GUARANTEE: " + reproduce.DeclaredPublic, "QUICK", "dp-x is left out", "contradicts: a is better (it is not)", "a.csv"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}
