package views

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

func words(t *testing.T, c stream.Cipher, views, first int) *Words {
	t.Helper()
	w, err := New(c, stream.KeyFromSeed(5, "views"), views, first)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A record's words are the same in whatever batch and part it stands, and on whatever rank; and no two views have the same.
func TestWordsFollowTheRecord(t *testing.T) {
	for _, cipher := range []stream.Cipher{stream.AES256CTR, stream.ChaCha20} {
		for _, views := range []int{1, 4, 16, 17, 40} {
			w := words(t, cipher, views, 0)
			rows := []int32{0, 1, 7, 100, 5, math.MaxInt32}
			all := w.Of(3, rows, nil)
			seen := map[uint32]bool{}
			for i, row := range rows {
				own := all[i*views : (i+1)*views]
				if got := w.Of(3, []int32{row}, nil); !slices.Equal(got, own) {
					t.Errorf("%v, %d views: record %d has %v alone and %v among others", cipher, views, row, got, own)
				}
				if row >= 5 && row < math.MaxInt32 {
					if got := words(t, cipher, views, 5).Of(3, []int32{row - 5}, nil); !slices.Equal(got, own) {
						t.Errorf("%v: record %d has other words on a rank that begins at 5", cipher, row)
					}
				}
				if slices.Equal(w.Of(4, []int32{row}, nil), own) {
					t.Errorf("%v: record %d has the same words in another batch", cipher, row)
				}
				for _, word := range own {
					if seen[word] { // 240 words collide with a probability below 10⁻⁵; the key is fixed
						t.Errorf("%v, %d views: a word comes twice", cipher, views)
					}
					seen[word] = true
				}
			}
		}
	}
}

// Flips are even, shifts uniform, and independent of each other: χ² over all of the 2·9·9 outcomes of 2²⁰ words. With 161 degrees of
// freedom it exceeds 350 with a probability below 10⁻¹⁵; the key is fixed.
func TestViewsAreUniform(t *testing.T) {
	const n = 1 << 20
	crop := ir.Map{Kind: ir.Crop, Margin: 4}
	w := words(t, stream.ChaCha20, 16, 0)
	counts := map[[3]int]float64{}
	for row := range int32(n / 16) {
		for _, word := range w.Of(9, []int32{row}, nil) {
			down, right := crop.Shift(word)
			flip := 0
			if ir.Flips(word) {
				flip = 1
			}
			if max(down, -down, right, -right) > 4 {
				t.Fatalf("a view is shifted by %d and %d", down, right)
			}
			counts[[3]int{flip, down, right}]++
		}
	}
	sum, mean := 0.0, float64(n)/(2*9*9)
	for _, c := range counts {
		sum += (c - mean) * (c - mean) / mean
	}
	if len(counts) != 2*9*9 || sum > 350 {
		t.Errorf("%d outcomes of %d, χ² is %v", len(counts), 2*9*9, sum)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range [][2]int{{0, 0}, {1, -1}} {
		if _, err := New(stream.ChaCha20, stream.KeyFromSeed(6, "views"), c[0], c[1]); err == nil {
			t.Errorf("words for %d views from record %d on", c[0], c[1])
		}
	}
}
