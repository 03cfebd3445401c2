package ptx

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// device is a memory with helpers that fail the test.
type device struct {
	testing.TB
	*Memory
}

func (d device) put(values any) uint64 {
	d.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		d.Fatal(err)
	}
	p := d.space(b.Len())
	if err := d.Write(p, b.Bytes()); err != nil {
		d.Fatal(err)
	}
	return p
}

func (d device) space(n int) uint64 {
	d.Helper()
	p, err := d.Alloc(n)
	if err != nil {
		d.Fatal(err)
	}
	return p
}

func fetch[T any](d device, p uint64, n int) []T {
	d.Helper()
	out := make([]T, n)
	b := make([]byte, binary.Size(out))
	if ok, err := d.Written(p, len(b)); !ok || err != nil {
		d.Fatalf("not all results are written: %v", err)
	}
	if err := d.Read(b, p); err != nil {
		d.Fatal(err)
	}
	if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, out); err != nil {
		d.Fatal(err)
	}
	return out
}

func (d device) launch(m *Module, name string, grid, block int, args []uint64, o Options) {
	d.Helper()
	k, err := m.Kernel(name)
	if err != nil {
		d.Fatal(err)
	}
	if err := k.Launch(d.Memory, [3]int{grid, 1, 1}, [3]int{block, 1, 1}, 0, args, o); err != nil {
		d.Fatal(err)
	}
}

func numbers(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func same[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestSample runs what clang makes of sample.cu in the natural and in shuffled
// orders; all results are exact and do not depend on the order.
func TestSample(t *testing.T) {
	m := parse(t, "sample.ptx")
	for seed := range uint64(6) {
		o := Options{Seed: seed}
		t.Run("gemm", func(t *testing.T) {
			const M, N, K = 70, 90, 37
			a, b := numbers(M*K, 1), numbers(N*K, 2)
			d := device{t, NewMemory()}
			c := d.space(4 * M * N)
			k, err := m.Kernel("gemm")
			check(t, err)
			check(t, k.Launch(d.Memory, [3]int{2, 2, 1}, [3]int{256, 1, 1}, 0, []uint64{d.put(a), d.put(b), c, M, N, K}, o))
			want := make([]float32, M*N)
			for i := range M {
				for j := range N {
					for k := range K {
						want[i*N+j] = fma32(a[i*K+k], b[j*K+k], want[i*N+j])
					}
				}
			}
			same(t, "product", fetch[float32](d, c, M*N), want)
		})
		t.Run("sums", func(t *testing.T) {
			x := numbers(512, 3)
			d := device{t, NewMemory()}
			s, most := d.space(8), d.space(64)
			d.launch(m, "sums", 2, 256, []uint64{d.put(x), s, most}, o)
			want, wantMost := make([]float32, 2), make([]int32, 16)
			for w := range 16 {
				v := append([]float32(nil), x[32*w:32*w+32]...)
				for i, y := range v {
					if y > 0 {
						wantMost[w] = int32(i)
					}
				}
				for step := 16; step > 0; step /= 2 {
					for i := range step {
						v[i] += v[i+step]
					}
				}
				want[w/8] += v[0]
			}
			same(t, "sum", fetch[float32](d, s, 2), want)
			same(t, "highest", fetch[int32](d, most, 16), wantMost)
		})
		t.Run("histogram", func(t *testing.T) {
			rng := rand.New(rand.NewPCG(4, 0))
			x := make([]byte, 3000)
			want := make([]uint32, 256)
			for i := range x {
				x[i] = byte(rng.IntN(20) * rng.IntN(20))
				want[x[i]]++
			}
			d := device{t, NewMemory()}
			counts, total := d.put(make([]uint32, 256)), d.put([]uint64{0})
			d.launch(m, "histogram", 3, 256, []uint64{d.put(x), uint64(len(x)), counts, total}, o)
			same(t, "counts", fetch[uint32](d, counts, 256), want)
			same(t, "total", fetch[uint64](d, total, 1), []uint64{3000})
		})
		t.Run("machine", func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 0))
			program := make([]int32, 50)
			for i := range program {
				program[i] = int32(rng.IntN(8))
			}
			d := device{t, NewMemory()}
			out := d.space(4 * 3 * 77)
			d.launch(m, "machine", 3, 77, []uint64{d.put(program), 50, out}, o)
			want := make([]int32, 3*77)
			for i := range want {
				want[i] = machine(program, int32(i%77))
			}
			same(t, "state", fetch[int32](d, out, len(want)), want)
		})
		t.Run("pipeline", func(t *testing.T) {
			x := numbers(128*5, 6)
			d := device{t, NewMemory()}
			out := d.space(128)
			d.launch(m, "pipeline", 1, 32, []uint64{d.put(x), out, 5}, o)
			want := make([]float32, 32)
			for i := range want {
				for r := range 5 {
					for j := range 4 {
						want[i] += x[128*r+(4*i+j+64)%128]
					}
				}
			}
			same(t, "sum", fetch[float32](d, out, 32), want)
		})
		t.Run("tensor", func(t *testing.T) {
			a, b, want := make([]float32, 128), make([]float32, 64), make([]float32, 128)
			for i := range a {
				a[i] = float32(i%13) - 5
			}
			for i := range b {
				b[i] = float32(i%7) - 3
			}
			for i := range want {
				for k := range 8 {
					want[i] += a[i/8*8+k] * b[k*8+i%8]
				}
			}
			d := device{t, NewMemory()}
			out := d.space(512)
			d.launch(m, "tensor", 1, 32, []uint64{d.put(a), d.put(b), out}, o)
			same(t, "product", fetch[float32](d, out, 128), want)
		})
		t.Run("mixed", func(t *testing.T) {
			type pair struct {
				N       int32
				Scale   float32
				Offset  float64
				Weights [6]float32
			}
			p := pair{40, 1.5, 0.25, [6]float32{1, 2, 3, 4, 5, 6}}
			var b bytes.Buffer
			check(t, binary.Write(&b, binary.LittleEndian, p))
			args := make([]uint64, (b.Len()+7)/8)
			for i, c := range b.Bytes() {
				args[i/8] |= uint64(c) << (8 * (i % 8))
			}
			x := make([]float64, 40)
			want := make([]float64, 40)
			for i := range x {
				x[i] = math.Sqrt(float64(i))
				want[i] = math.FMA(x[i], 1.5, 0.25) + float64(p.Weights[i%6]*float32(int(1)<<(i%8)))
			}
			d := device{t, NewMemory()}
			y, z := d.space(320), d.space(160)
			d.launch(m, "mixed", 1, 40, append(args, d.put(x), y, z), o)
			same(t, "y", fetch[float64](d, y, 40), want)
			roots := make([]float32, 40)
			for i := range roots {
				roots[i] = float32(i)/40 + float32(math.Sqrt(float64(i)))
			}
			same(t, "z", fetch[float32](d, z, 40), roots)
		})
	}
}

// machine is the kernel of that name.
func machine(program []int32, x int32) int32 {
	var stack [16]int32
	for i := range stack {
		stack[i] = int32(i)
	}
	top, id, n := int32(0), x, int32(len(program))
	for i := range n {
		switch program[(i+id)%n] {
		case 0:
			x += 3
		case 1:
			x *= 5
		case 2:
			stack[top&15] = x
			top++
		case 3:
			top--
			x ^= stack[top&15]
		case 4:
			for x&3 != 0 {
				x += 7
			}
		case 5:
			if x < 0 {
				x = -x
			} else {
				x >>= 1
			}
		case 6:
			if x%7 == 0 {
				return x + stack[x&15]
			}
		default:
			x = ^x
		}
	}
	return x + stack[x&15]
}

// BenchmarkGEMM has all checks on.
func BenchmarkGEMM(b *testing.B) {
	m := parse(b, "sample.ptx")
	const n = 128
	d := device{b, NewMemory()}
	x, y, z := d.put(numbers(n*n, 1)), d.put(numbers(n*n, 2)), d.space(4*n*n)
	k, err := m.Kernel("gemm")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := k.Launch(d.Memory, [3]int{2, 2, 1}, [3]int{256, 1, 1}, 0, []uint64{x, y, z, n, n, n}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		parse(b, "sample.ptx")
	}
}
