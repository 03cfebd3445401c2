package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/privgrad/privgrad/internal/usage"
)

// Table lines up columns that write separates by tabs; the flags are tabwriter's.
func Table(w io.Writer, flags uint, write func(w io.Writer)) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	write(t)
	t.Flush()
}

// Row is a line of a table of two columns.
func Row(w io.Writer, name, format string, a ...any) {
	fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, a...))
}

// Plural counts things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Quote makes a path one word of a shell.
func Quote(path string) string { return usage.Quote(path) }

// ByteSize writes a size for people.
func ByteSize(n int64) string {
	size, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	return fmt.Sprintf("%.3g %s", size, units[0])
}
