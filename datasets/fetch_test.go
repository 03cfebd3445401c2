package datasets

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// server publishes the toy set and records what it was asked for.
type server struct {
	*httptest.Server
	files     map[string][]byte // by URL path
	cut       int               // hang up after that many bytes, 0 never
	noRange   bool
	requests  []string
	downloads []Download
}

func newServer(t *testing.T) *server {
	s := &server{files: make(map[string][]byte)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r.URL.Path+" "+r.Header.Get("Range"))
	data, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if s.noRange {
		r.Header.Del("Range")
	}
	if s.cut > 0 {
		w = &cutter{w, s.cut}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// cutter lets the connection break off within the body.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(c.left, len(p))])
	if c.left -= n; c.left == 0 {
		return n, errors.New("cut")
	}
	return n, err
}

// publishToy serves the toy set as gz files.
func publishToy(t *testing.T) *server {
	s := newServer(t)
	files := toyFiles()
	for _, name := range []string{"train-x", "train-y", "test-x", "test-y"} {
		data := files[name]
		gz := pack(t, data)
		s.files["/"+name+".gz"] = gz
		s.downloads = append(s.downloads, Download{
			URL: s.URL + "/" + name + ".gz", SHA256: digest(gz), Size: int64(len(gz)),
			Files: []Content{{name, digest(data), int64(len(data))}},
		})
	}
	return s
}

// silent is a progress that nobody looks at.
func silent(int64, int64) {}

func (s *server) fetch(dir string) error {
	return fetch(context.Background(), toy, s.downloads, dir, silent)
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var toyGz = []string{"test-x.gz", "test-y.gz", "train-x.gz", "train-y.gz"}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFetch(t *testing.T) {
	s := publishToy(t)
	dir := filepath.Join(t.TempDir(), "new", "dir")
	var total int64
	for _, d := range s.downloads {
		total += d.Size
	}
	last := int64(0)
	err := fetch(context.Background(), toy, s.downloads, dir, func(done, of int64) {
		if of != total || done < last || done > total {
			t.Errorf("progress %d of %d after %d, total %d", done, of, last, total)
		}
		last = done
	})
	check(t, err)
	if last != total {
		t.Errorf("progress ends at %d of %d", last, total)
	}
	if got := list(t, dir); !slices.Equal(got, toyGz) {
		t.Errorf("fetched %v", got)
	}
	if _, err := toy.Open(dir); err != nil {
		t.Error(err)
	}

	s.requests = nil
	if err := s.fetch(dir); err != nil || len(s.requests) != 0 {
		t.Errorf("a second fetch asked %v, error %v", s.requests, err)
	}
}

// Whatever holds the published content is left alone, and only the rest is
// fetched.
func TestFetchKeepsWhatIsThere(t *testing.T) {
	s := publishToy(t)
	dir := t.TempDir()
	files := toyFiles()
	repacked := append(pack(t, files["train-x"][:99]), pack(t, files["train-x"][99:])...)
	write(t, dir, map[string][]byte{"train-x.gz": repacked, "train-y": files["train-y"]})
	check(t, s.fetch(dir))
	if want := []string{"/test-x.gz ", "/test-y.gz "}; !slices.Equal(s.requests, want) {
		t.Errorf("asked for %v, want %v", s.requests, want)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "train-x.gz")); err != nil || !bytes.Equal(got, repacked) {
		t.Errorf("the file that was there changed, error %v", err)
	}
}

func TestFetchRefusesToOverwrite(t *testing.T) {
	for name, content := range map[string][]byte{
		"train-x":    idxFile(make([]byte, 6), 1, 2, 3),
		"train-x.gz": pack(t, idxFile(make([]byte, 6), 1, 2, 3)),
		"test-y.gz":  []byte("damaged"),
	} {
		s := publishToy(t)
		dir := t.TempDir()
		write(t, dir, map[string][]byte{name: content})
		err := s.fetch(dir)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)+" exists and is not the file published") {
			t.Errorf("%s: error %v", name, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, content) || len(s.requests) > 0 {
			t.Errorf("%s was touched, or the server asked: %v %v", name, err, s.requests)
		}
	}
}

func TestFetchResumes(t *testing.T) {
	for _, noRange := range []bool{false, true} {
		s := publishToy(t)
		s.cut, s.noRange = 100, noRange
		dir := t.TempDir()
		err := s.fetch(dir)
		if err == nil || !strings.Contains(err.Error(), "run it again") {
			t.Fatalf("cut connection: error %v", err)
		}
		if got := list(t, dir); !slices.Equal(got, []string{".privgrad-train-x.gz.part"}) {
			t.Fatalf("after the cut: %v", got)
		}
		if info, err := os.Stat(filepath.Join(dir, ".privgrad-train-x.gz.part")); err != nil || info.Size() != 100 {
			t.Fatalf("after the cut the part is %v, error %v", info, err)
		}
		s.cut, s.requests = 0, nil
		check(t, s.fetch(dir))
		if s.requests[0] != "/train-x.gz bytes=100-" || s.requests[1] != "/train-y.gz " {
			t.Errorf("the second call asked %v", s.requests)
		}
		if got := list(t, dir); !slices.Equal(got, toyGz) {
			t.Errorf("fetched %v", got)
		}
		if r, err := Verify(dir, toy); err != nil || !r.OK() {
			t.Errorf("what was fetched in two parts is damaged: %+v, %v", r, err)
		}
	}
}

// A complete part is checked and named without asking the server.
func TestFetchFinishesCompletePart(t *testing.T) {
	s := publishToy(t)
	dir := t.TempDir()
	write(t, dir, map[string][]byte{".privgrad-train-x.gz.part": s.files["/train-x.gz"]})
	check(t, s.fetch(dir))
	if slices.Contains(s.requests, "/train-x.gz ") || !slices.Equal(list(t, dir), toyGz) {
		t.Errorf("asked %v, have %v", s.requests, list(t, dir))
	}
}

// Files of the user's stay as they are, and nothing is written through a link.
func TestFetchTouchesNothingElse(t *testing.T) {
	s := publishToy(t)
	dir, mine := t.TempDir(), []byte("precious")
	write(t, dir, map[string][]byte{"train-x.gz.part": mine, "train-x.part": mine, "target": mine})
	for _, link := range []string{".privgrad-train-x.gz.part", "train-x.gz"} {
		if err := os.Symlink("target", filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
		if err := s.fetch(dir); err == nil {
			t.Errorf("fetched with a link as %s", link)
		}
		check(t, os.Remove(filepath.Join(dir, link)))
	}
	check(t, os.Symlink("nothing", filepath.Join(dir, "train-x.gz")))
	if err := s.fetch(dir); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("fetched in the place of a link: %v", err)
	}
	check(t, os.Remove(filepath.Join(dir, "train-x.gz")))
	check(t, s.fetch(filepath.Join(dir, "missing")+"/.."))
	if got := list(t, dir); !slices.Equal(got, slices.Sorted(slices.Values(append([]string{"target", "train-x.gz.part", "train-x.part"}, toyGz...)))) {
		t.Errorf("the folder has %v", got)
	}
	for _, name := range []string{"train-x.gz.part", "train-x.part", "target"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != "precious" {
			t.Errorf("%s holds %q (%v)", name, b, err)
		}
	}
}

func TestFetchKeepsNothingWrong(t *testing.T) {
	for name, change := range map[string]func(s *server, dir string){
		"other bytes": func(s *server, _ string) {
			s.files["/train-x.gz"] = bytes.Clone(s.files["/train-x.gz"])
			s.files["/train-x.gz"][50] ^= 1
		},
		"longer": func(s *server, _ string) { s.files["/train-x.gz"] = append(bytes.Clone(s.files["/train-x.gz"]), 1) },
		"stale part": func(s *server, dir string) {
			write(t, dir, map[string][]byte{".privgrad-train-x.gz.part": []byte("from elsewhere")})
		},
		"overlong part": func(s *server, dir string) {
			write(t, dir, map[string][]byte{".privgrad-train-x.gz.part": append(bytes.Clone(s.files["/train-x.gz"]), 1)})
		},
	} {
		s := publishToy(t)
		dir := t.TempDir()
		change(s, dir)
		err := s.fetch(dir)
		if err == nil || !strings.Contains(err.Error(), "SHA-256 differs") || !strings.Contains(err.Error(), "/train-x.gz: ") {
			t.Errorf("%s: error %v", name, err)
		}
		if got := list(t, dir); len(got) != 0 {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

func TestFetchServerErrors(t *testing.T) {
	s := publishToy(t)
	delete(s.files, "/train-x.gz")
	dir := t.TempDir()
	if err := s.fetch(dir); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("404: error %v", err)
	}

	s = publishToy(t)
	s.files["/train-x.gz"] = s.files["/train-x.gz"][:10]
	write(t, dir, map[string][]byte{".privgrad-train-x.gz.part": make([]byte, 20)})
	if err := s.fetch(dir); err == nil || !strings.Contains(err.Error(), "ends before the part that is here") {
		t.Errorf("416: error %v", err)
	}
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("416: kept %v", got)
	}

	s = publishToy(t)
	s.Close()
	if err := s.fetch(dir); err == nil || !strings.Contains(err.Error(), "not reached") {
		t.Errorf("no server: error %v", err)
	}

	s = publishToy(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := fetch(ctx, toy, s.downloads, dir, silent); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}

	if err := Fetch(context.Background(), toy, dir, silent); err == nil || !strings.Contains(err.Error(), "no address is known for toy") {
		t.Errorf("unpublished set: error %v", err)
	}
	if err := s.fetch(""); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("no directory: error %v", err)
	}
}

// archive publishes the toy set as one .tar.gz, with other members about.
func archive(t *testing.T, members map[string][]byte, listed map[string][]byte) *server {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	add := func(h *tar.Header, data []byte) {
		check(t, w.WriteHeader(h))
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	add(&tar.Header{Name: "toy/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	add(&tar.Header{Name: "toy/readme.html", Typeflag: tar.TypeReg, Size: 2, Mode: 0o644}, []byte("hi"))
	for name, data := range members {
		add(&tar.Header{Name: "toy/" + name, Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: 0o600}, data)
	}
	check(t, w.Close())
	gz := pack(t, raw.Bytes())
	s := newServer(t)
	s.files["/toy.tar.gz"] = gz
	d := Download{URL: s.URL + "/toy.tar.gz", SHA256: digest(gz), Size: int64(len(gz))}
	for name, data := range listed {
		d.Files = append(d.Files, Content{Name: name, Size: int64(len(data))})
	}
	s.downloads = []Download{d}
	return s
}

func TestFetchUnpacks(t *testing.T) {
	files := toyFiles()
	s := archive(t, files, files)
	dir := t.TempDir()
	check(t, s.fetch(dir))
	if got := list(t, dir); !slices.Equal(got, []string{"test-x", "test-y", "train-x", "train-y"}) {
		t.Errorf("unpacked %v", got)
	}
	if _, err := toy.Open(dir); err != nil {
		t.Error(err)
	}
	s.requests = nil
	if err := s.fetch(dir); err != nil || len(s.requests) != 0 {
		t.Errorf("a second fetch asked %v, error %v", s.requests, err)
	}

	// Files already in the set's own subdirectory count as there.
	sub := t.TempDir()
	write(t, sub, under(toy.Subdir, packed(t, files)))
	if err := s.fetch(sub); err != nil || len(s.requests) != 0 {
		t.Errorf("with the files in %s: asked %v, error %v", toy.Subdir, s.requests, err)
	}

	lacking := toyFiles()
	delete(lacking, "test-x")
	if err := archive(t, lacking, files).fetch(t.TempDir()); err == nil || !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "lacks files") {
		t.Errorf("missing member: error %v", err)
	}
	short := toyFiles()
	short["test-y"] = short["test-y"][:3]
	if err := archive(t, short, files).fetch(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has 3 bytes, want 10") {
		t.Errorf("short member: error %v", err)
	}
}

// The published table is complete and well formed.
func TestUpstreamTable(t *testing.T) {
	hex64 := func(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
	for set, files := range map[string]int{"mnist": 4, "fmnist": 4, "cifar10": 6, "cifar100": 2} {
		n := 0
		for _, d := range Downloads(set) {
			if !hex64(d.SHA256) || d.Size <= 0 || !strings.HasPrefix(d.URL, "http") {
				t.Errorf("%s: %+v", set, d)
			}
			for _, f := range d.Files {
				if n++; f.Size <= 0 || f.SHA256 != "" && !hex64(f.SHA256) {
					t.Errorf("%s: %+v", set, f)
				}
			}
		}
		if n != files {
			t.Errorf("%s: %d files, want %d", set, n, files)
		}
	}
	if Downloads("none") != nil {
		t.Error("an unknown set has addresses")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, []byte("no archive")))
	f.Add(pack(f, make([]byte, 1024)))
	rng := rand.New(rand.NewPCG(1, 1))
	junk := make([]byte, 600)
	for i := range junk {
		junk[i] = byte(rng.Uint32())
	}
	f.Add(pack(f, junk))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		name := filepath.Join(dir, ".privgrad-a.tar.gz.part")
		write(t, dir, map[string][]byte{".privgrad-a.tar.gz.part": data})
		d := Download{URL: "http://localhost/a.tar.gz", Files: []Content{{Name: "x", Size: 3}}}
		err := d.unpack(name, dir)
		_, there := os.Stat(filepath.Join(dir, "x"))
		if (err == nil) != (there == nil) {
			t.Errorf("error %v, but x: %v", err, there)
		}
	})
}
