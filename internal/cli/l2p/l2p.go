// Package l2p is the commands about protectors: to meta-train one, and to list them.
package l2p

import "github.com/spf13/cobra"

// New is the command of protectors.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "l2p",
		Short: "Meta-train a protector, or list those that are shipped",
		Long: `l2p is about protectors: a scheduler that chooses the noise of private steps, and a
projector that makes updates of noised gradients, both small LSTMs (Hong et al.
2021). They are trained on public tasks, by simulated private runs. A private run
uses one by train --optimizer l2p --protector NAME|FILE, and its guarantee does
not rest on what the protector has learned.`,
		Example: `  privgrad l2p list
  privgrad l2p train --tasks quadratic --out protectors/mine.safetensors`,
	}
	cmd.AddCommand(metaTrain(), list())
	return cmd
}
