package model

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
)

// exportation is what export did.
type exportation struct {
	Run    string `json:"run"`
	File   string `json:"file"`
	Format string `json:"format"`
	// Unfinished says that the run had steps to go.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Export is the command that writes a model for other programs.
func Export() *cobra.Command {
	var flags modelFlags
	var file string
	var force bool
	return cli.Command{
		Use:   "export RUN",
		Short: "Write a saved model for other programs, as ONNX",
		Long: `export writes the saved model of a run as one ONNX file. The file contains all
preprocessing: the scaling of pixels, and fixed features. Its input is "image", bytes of
shape N, C, H, W. For a table the input is "features", float32 values as the schema encodes
them. Its output is "logits": a value for each class, or for a regression the predicted
value in the units of the label. Features that are a Go function cannot be exported.`,
		Example:  "  privgrad export runs/first --onnx model.onnx",
		Args:     cli.OneArg("a run directory"),
		Required: []string{"onnx"},
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&file, "onnx", "", "file to write, which must not exist without --force")
			f.BoolVar(&force, "force", false, "replace the file")
			flags.register(f)
		},
		Run: func(c *cli.Call) error {
			if err := cli.Output("onnx", file); err != nil {
				return err
			}
			if err := cli.NewFile("onnx", file); err != nil && !force {
				return usage.Errorf("%w; --force replaces it", err)
			}
			m, err := flags.open(c)
			if err != nil {
				return err
			}
			if err := durable.WriteFile(file, m.ExportONNX); err != nil {
				return err
			}
			return c.Show(exportation{c.Arguments[0], file, "onnx", m.Unfinished() != ""}, func(w io.Writer) { fmt.Fprintf(w, "wrote %s\n", file) })
		},
	}.New()
}
