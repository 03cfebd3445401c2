package cifar

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/privgrad/privgrad/datasets"
)

const record = 3073

// batch makes n records whose bytes all differ between records and planes.
func batch(seed, n int) []byte {
	b := make([]byte, n*record)
	for i := range b {
		b[i] = byte(seed*31 + i/record*7 + i%record%253)
		if i%record == 0 {
			b[i] = byte((seed + i/record) % 11) // 10 is no class
		}
	}
	return b
}

func files() map[string][]byte {
	m := map[string][]byte{"test_batch.bin": batch(9, 2)}
	for i := 1; i <= 5; i++ {
		m[fmt.Sprintf("data_batch_%d.bin", i)] = batch(i, i)
	}
	return m
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mapFS(t testing.TB, files map[string][]byte, dir string, gz bool) fstest.MapFS {
	m := fstest.MapFS{}
	for name, data := range files {
		if gz {
			name, data = name+".gz", pack(t, data)
		}
		m[dir+name] = &fstest.MapFile{Data: data}
	}
	return m
}

func TestOpen(t *testing.T) {
	var pixels, labels []byte
	for i := 1; i <= 5; i++ {
		for b := batch(i, i); len(b) > 0; b = b[record:] {
			labels, pixels = append(labels, b[0]), append(pixels, b[1:record]...)
		}
	}
	for _, dir := range []string{"", "cifar-10-batches-bin/"} {
		for _, gz := range []bool{false, true} {
			s, err := Layout.OpenFS(mapFS(t, files(), dir, gz))
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != "cifar10" || s.PublicN != 50000 || s.Classes != 10 || s.Train.Shape != [3]int{3, 32, 32} || !s.TestIsPublic {
				t.Errorf("described as %q, N=%d, %v", s.Name, s.PublicN, s.Train.Shape)
			}
			if !bytes.Equal(s.Train.Labels, labels) || !bytes.Equal(s.Train.Features, pixels) {
				t.Error("the training records differ from the files, or their order")
			}
			if !slices.Equal(s.Test.Labels, []uint8{9, 10}) || len(s.Test.Features) != 2*3072 {
				t.Error("the test records differ from the file")
			}
		}
	}
	if _, err := Layout.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "data_batch_1.bin") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestStructuralFaults(t *testing.T) {
	for _, f := range []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"empty", func([]byte) []byte { return nil }, "the file is empty"},
		{"truncated", func(b []byte) []byte { return b[:len(b)-1] }, "no whole number of 3073-byte records"},
		{"trailing byte", func(b []byte) []byte { return append(b, 0) }, "no whole number of 3073-byte records"},
		{"two labels a record", func(b []byte) []byte { return b[:2*3074] }, "no whole number of 3073-byte records"},
	} {
		for _, gz := range []bool{false, true} {
			m := files()
			m["data_batch_4.bin"] = f.damage(m["data_batch_4.bin"])
			_, err := Layout.OpenFS(mapFS(t, m, "", gz))
			if err == nil || !strings.HasPrefix(err.Error(), "cifar10: data_batch_4.bin") || !strings.Contains(err.Error(), f.want) {
				t.Errorf("%s: error %v", f.name, err)
			}
		}
	}
}

func TestVerify(t *testing.T) {
	r, err := datasets.VerifyFS(mapFS(t, files(), "", true), &Layout)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Private == nil || r.Private.Train.Records != 15 || r.Private.Train.OutOfRange != 0 || r.Private.Test.OutOfRange != 1 {
		t.Errorf("%+v", r)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(batch(1, 1))
	f.Add(batch(2, 2)[:record+5])
	f.Fuzz(func(t *testing.T, data []byte) {
		pixels, labels, err := decode(bytes.Clone(data), Layout.Shape)
		if err != nil {
			return
		}
		var again []byte
		for i, l := range labels {
			again = append(append(again, l), pixels[i*3072:(i+1)*3072]...)
		}
		if !bytes.Equal(again, data) {
			t.Error("accepted records do not encode to the same file")
		}
	})
}
