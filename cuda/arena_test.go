package cuda

import "testing"

func TestChunksAreEven(t *testing.T) {
	for _, c := range []struct{ most, capacity, want int }{
		{0, 300, 300}, {512, 300, 300}, {512, 512, 512}, {3456, 4096, 2048}, {1728, 4096, 1376}, {1, 40, 1}, {33, 40, 32}, {20, 40, 20}, {512, 513, 288},
	} {
		if got := chunkOf(c.most, c.capacity); got != c.want {
			t.Errorf("at most %d of %d examples go together: %d, want %d", c.most, c.capacity, got, c.want)
		}
	}
}
