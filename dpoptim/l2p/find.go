package l2p

import (
	"fmt"
	"strings"
)

// Find gives a protector by the path of its file.
func Find(name string) (*Protector, error) {
	if strings.HasSuffix(name, weightsSuffix) {
		return Read(name)
	}
	return nil, fmt.Errorf("unknown protector %q: give the path of a file that ends in %s", name, weightsSuffix)
}
