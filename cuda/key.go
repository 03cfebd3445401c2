package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/stream"
)

// key is where the key of a noise stream lies on the device: one copy a network,
// wiped when the network is closed.
func (n *net) key(s *stream.Stream) (kernels.Ptr, error) {
	if p, ok := n.keys[s]; ok {
		return kernels.Ptr(p), nil
	}
	words, err := s.KeyWords()
	if err != nil {
		return 0, err
	}
	defer clear(words[:])
	p, err := n.alloc(int64(len(words)*4), "a noise key", lessMemory)
	if err != nil {
		return 0, err
	}
	// A key that did not arrive would leave noise to what the memory held: the
	// network is of no use then, and nothing remembers the place.
	if err := n.device.failed("copying a noise key", n.device.context.CopyIn(p, bytesOf(words[:]))); err != nil {
		return 0, n.Fail(err)
	}
	n.keys[s] = p
	return kernels.Ptr(p), nil
}

// forgetKeys wipes the keys.
func (n *net) forgetKeys() error {
	if len(n.keys) == 0 {
		return nil
	}
	var errs []error
	for _, p := range n.keys {
		errs = append(errs, n.stream.Set(p, 0, kernels.KeyBytes/4))
	}
	clear(n.keys)
	return errors.Join(append(errs, n.stream.Sync())...)
}
