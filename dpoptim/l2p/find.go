package l2p

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/privgrad/privgrad/internal/usage"
)

// The protectors that are shipped, as Write stored them.
//
//go:embed protectors/*.json protectors/*.safetensors
var shipped embed.FS

// Shipped gives the protectors that are built in, by name.
func Shipped() ([]*Protector, error) {
	files, err := fs.Glob(shipped, "protectors/*"+weightsSuffix)
	if err != nil {
		return nil, fmt.Errorf("protectors that are built in: %w", err)
	}
	var all []*Protector
	for _, file := range files {
		card, err := shipped.ReadFile(CardPath(file))
		if err != nil {
			return nil, fmt.Errorf("protector %s: its card: %w", file, err)
		}
		weights, err := shipped.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("protector: %w", err)
		}
		p, err := parse(file, card, bytes.NewReader(weights))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// isShipped says whether Find takes a name for a shipped protector's.
func isShipped(name string) bool { return !strings.HasSuffix(name, weightsSuffix) }

// Find gives a protector by the name of a shipped one, or by the path of its file.
func Find(nameOrFile string) (*Protector, error) {
	if strings.HasSuffix(nameOrFile, weightsSuffix) {
		return Read(nameOrFile)
	}
	all, err := Shipped()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range all {
		if p.Card.Name == nameOrFile {
			return p, nil
		}
		names = append(names, p.Card.Name)
	}
	return nil, fmt.Errorf("%w, or give the path of a file that ends in %s", usage.Unknown("protector", nameOrFile, names), weightsSuffix)
}
