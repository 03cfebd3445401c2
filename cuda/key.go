package cuda

import (
	"github.com/privgrad/privgrad/cuda/kernels"
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
	n.keys[s] = p
	return kernels.Ptr(p), n.device.failed("copying a noise key", n.device.context.CopyIn(p, bytesOf(words[:])))
}

// forgetKeys wipes the keys.
func (n *net) forgetKeys() {
	for s, p := range n.keys {
		if n.stream.Set(p, 0, kernels.KeyBytes/4) == nil {
			n.stream.Sync()
		}
		delete(n.keys, s)
	}
}
