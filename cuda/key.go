package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/stream"
)

// key is where the key of a noise stream lies on the device: one copy a network,
// wiped when the network is closed.
func (n *net) key(s *stream.Stream) (kernels.Ptr, error) {
	if p, ok := n.keys[s]; ok {
		return kernels.Ptr(p), nil
	}
	k, ok := s.Key()
	if !ok {
		return 0, errors.New("the noise's stream has no key for a device")
	}
	p, err := n.alloc(int64(len(k)), "a noise key", lessMemory)
	if err != nil {
		return 0, err
	}
	n.keys[s] = p
	return kernels.Ptr(p), n.device.failed("copying a noise key", n.device.context.CopyIn(p, k[:]))
}

// forgetKeys wipes the keys.
func (n *net) forgetKeys() {
	for s, p := range n.keys {
		if n.stream.Set(p, 0, len(stream.Key{})/4) == nil {
			n.stream.Sync()
		}
		delete(n.keys, s)
	}
}
