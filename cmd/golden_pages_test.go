package cmd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/config"
)

// What the reference says of commands is their help.
func TestGoldenCommandsPage(t *testing.T) {
	var list, all strings.Builder
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		switch {
		case len(path) == 0: // which results.txt has
			if ok(t, "--help") != ok(t) {
				t.Error("privgrad --help prints other than privgrad alone")
			}
		case path[0] == "completion":
			return // cobra's own
		default:
			fmt.Fprintf(&list, "| [`%s`](#%s) | %s |\n", strings.Join(path, " "), strings.Join(path, "-"), c.Short)
			fmt.Fprintf(&all, "\n## %s\n\n```\n%s```\n", strings.Join(path, " "), ok(t, append(path, "--help")...))
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	page(t, "commands.md", "commands", "| command | does |\n|---|---|\n"+list.String()+all.String())
}

// What the reference says of settings is what their flags say.
func TestGoldenSettingsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| key | flag | what |\n|---|---|---|\n")
	for _, s := range config.Rows() {
		flag := "in a file alone"
		if !s.InFile {
			flag = "`--" + s.Flag() + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, flag, strings.ReplaceAll(s.Help, "|", `\|`))
	}
	page(t, "settings.md", "settings", b.String())
}

// page holds the part between two markers of a page of the reference against what it
// should be, or writes it.
func page(t *testing.T, name, marker, want string) {
	t.Helper()
	path := home + "/../docs/reference/" + name
	from, to := "<!-- "+marker+" -->\n", "<!-- end of "+marker+" -->"
	text := readFile(t, path)
	before, rest, begins := strings.Cut(text, from)
	got, after, ends := strings.Cut(rest, to)
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no place for its %s", name, marker)
	case got == want:
	case *update:
		check(t, os.WriteFile(path, []byte(before+from+want+to+after), 0o644))
	default:
		sections := strings.Split(want, "\n## ")
		for i := range sections[1:] {
			sections[i] += "\n"
			sections[i+1] = "## " + sections[i+1]
		}
		t.Errorf("docs/reference/%s is out of date (go test ./cmd -run Golden -update)%s", name, difference(got, sections))
	}
}
