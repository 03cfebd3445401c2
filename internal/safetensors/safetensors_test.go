package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/privgrad/privgrad/internal/half"
)

// build makes a file of header and size bytes of data, which need not agree.
func build(header string, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, size)...)
}

func goldenTensors() ([]Tensor, map[string]string) {
	return []Tensor{
		{Name: "fc1.weight", Shape: []int{2, 3}, Data: []float32{0, 1, -1, 0.5, 2, 3.25}},
		{Name: "fc1.bias", Shape: []int{2}, Data: []float32{0x1p127, float32(math.Copysign(0, -1))}},
		{Name: "scale", Shape: []int{}, Data: []float32{math.SmallestNonzeroFloat32}},
		{Name: "none", Shape: []int{0, 5}, Data: []float32{}},
	}, map[string]string{"model": "tiny", "format": "pt"}
}

// golden.safetensors was put together byte by byte, not by this package.
func TestGolden(t *testing.T) {
	golden, err := os.ReadFile("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	tensors, metadata := goldenTensors()
	var out bytes.Buffer
	if err := Write(&out, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), golden) {
		t.Errorf("wrote\n%q, want\n%q", out.Bytes(), golden)
	}
	gotTensors, gotMetadata, err := Read(bytes.NewReader(golden), int64(len(golden)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tensors, gotTensors); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(metadata, gotMetadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if math.Float32bits(gotTensors[1].Data[1]) != 1<<31 {
		t.Error("the sign of zero was lost")
	}
}

// Other writers order the header as they like and pad as they like.
func TestReadOtherOrder(t *testing.T) {
	const header = `{ "b":{"data_offsets":[4,8],"shape":[1],"dtype":"F32"},"e":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},` +
		`"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]} }   `
	file := build(header, 8)
	binary.LittleEndian.PutUint32(file[len(file)-8:], math.Float32bits(1))
	binary.LittleEndian.PutUint32(file[len(file)-4:], math.Float32bits(2))
	got, metadata, err := Read(iotest.OneByteReader(bytes.NewReader(file)), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{{Name: "a", Shape: []int{1, 1}, Data: []float32{1}}, {Name: "e", Shape: []int{0}, Data: []float32{}}, {Name: "b", Shape: []int{1}, Data: []float32{2}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
	if metadata != nil {
		t.Errorf("metadata %v, want none", metadata)
	}
}

func TestReadRefuses(t *testing.T) {
	one := func(shape, offsets string) string {
		return `{"a":{"dtype":"F32","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	two := func(offsets string) string {
		return strings.TrimSuffix(one("[1]", "[0,4]"), "}") + `,"b":{"dtype":"F32","shape":[1],"data_offsets":` + offsets + `}}`
	}
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"empty file":            {nil, "ends within the header's length"},
		"half a length":         {make([]byte, 4), "ends within the header's length"},
		"no header":             {make([]byte, 8), "not a JSON object"},
		"huge header":           {bytes.Repeat([]byte{0xff}, 16), "the format allows"},
		"header beyond limit":   {append([]byte{0, 0, 1, 0, 0, 0, 0, 0}, "{}"...), "the limit"},
		"leading space":         {build(` {}`, 0), "not a JSON object"},
		"array":                 {build(`[]`, 0), "not a JSON object"},
		"bad UTF-8":             {build("{\"\xff\":{}}", 0), "UTF-8"},
		"unclosed":              {build(`{`, 0), "JSON"},
		"trailing comma":        {build(`{"a":{"dtype":"F32","shape":[1,],"data_offsets":[0,4]}}`, 4), "JSON"},
		"second object":         {build(`{}{}`, 0), "goes on"},
		"padded with newlines":  {build("{}\n", 0), "goes on"},
		"not an object":         {build(`{"a":3}`, 0), "belongs"},
		"repeated name":         {build(strings.ReplaceAll(two("[4,8]"), `"b"`, `"a"`), 8), "twice"},
		"escaped repeated name": {build(strings.ReplaceAll(two("[4,8]"), `"b"`, `"\u0061"`), 8), "twice"},
		"repeated field":        {build(`{"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), "twice"},
		"repeated metadata":     {build(`{"__metadata__":{"k":"1","k":"2"}}`, 0), "twice"},
		"metadata not text":     {build(`{"__metadata__":{"k":1}}`, 0), "string"},
		"missing field":         {build(`{"a":{"dtype":"F32","shape":[]}}`, 0), "needs dtype"},
		"unknown field":         {build(`{"a":{"DType":"F32","shape":[],"data_offsets":[0,4]}}`, 4), "unknown field"},
		"whole numbers":         {build(`{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, 8), `tensor "a": not a usable safetensors file: its type is "I64"`},
		"half a brain float":    {build(`{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,8]}}`, 8), "takes 4 bytes"},
		"negative dimension":    {build(one("[-1]", "[0,4]"), 4), "integer"},
		"fractional dimension":  {build(one("[1.0]", "[0,4]"), 4), "integer"},
		"dimension of 2⁶³":      {build(one("[9223372036854775808]", "[0,4]"), 4), "integer"},
		"product of 2⁶⁴":        {build(one("[4294967296,1073741824]", "[0,0]"), 0), "too large"},
		"hidden overflow":       {build(one("[0,4294967296,4294967296]", "[0,0]"), 0), "too large"},
		"nested shape":          {build(one("[[1]]", "[0,4]"), 4), "integer"},
		"one offset":            {build(one("[1]", "[4]"), 4), "begin and an end"},
		"three offsets":         {build(one("[1]", "[0,4,8]"), 8), "begin and an end"},
		"offsets reversed":      {build(one("[1]", "[4,0]"), 4), "begin and an end"},
		"first hole":            {build(one("[1]", "[4,8]"), 8), "starts at byte 4"},
		"hole":                  {build(two("[8,12]"), 12), "starts at byte 8"},
		"overlap":               {build(two("[2,6]"), 6), "starts at byte 2"},
		"same place":            {build(two("[0,4]"), 4), "starts at byte 0"},
		"shape too small":       {build(one("[1]", "[0,8]"), 8), "takes 4 bytes"},
		"shape too large":       {build(one("[3]", "[0,8]"), 8), "takes 12 bytes"},
		"data cut short":        {build(one("[2]", "[0,8]"), 7), "the limit leaves 7"},
		"bytes left over":       {build(one("[1]", "[0,4]"), 5), "follow"},
		"half a half":           {build(strings.ReplaceAll(one("[1]", "[0,3]"), "F32", "F16"), 3), "takes 2 bytes"},
		"65 dimensions":         {build(one("["+strings.Repeat("1,", 64)+"1]", "[0,4]"), 4), "more than 64"},
	} {
		_, _, err := Read(bytes.NewReader(c.file), int64(len(c.file)))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.says)
		}
	}
	whole := build(one("[2]", "[0,8]"), 8)
	for size := range whole {
		if _, _, err := Read(bytes.NewReader(whole[:size]), math.MaxInt64); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "ends within") {
			t.Errorf("cut short after %d bytes: %v", size, err)
		}
	}
	for _, limit := range []int64{math.MinInt64, -1, 0, 7, int64(len(whole)) - 1} {
		if _, _, err := Read(bytes.NewReader(whole), limit); !errors.Is(err, ErrFormat) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if _, _, err := Read(iotest.TimeoutReader(bytes.NewReader(whole)), 1<<20); !errors.Is(err, iotest.ErrTimeout) || errors.Is(err, ErrFormat) {
		t.Errorf("a failing reader: %v", err)
	}
}

// What a file claims costs nothing: 8 TB of data, a header of 100 MB.
func TestHostileSizes(t *testing.T) {
	claim := build(`{"a":{"dtype":"F32","shape":[2199023255552],"data_offsets":[0,8796093022208]}}`, 16)
	header := append(binary.LittleEndian.AppendUint64(nil, maxHeader), '{')
	for _, file := range [][]byte{claim, header} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := Read(bytes.NewReader(file), math.MaxInt64)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrFormat) {
			t.Errorf("error %v", err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("reading %d bytes took %d", len(file), used)
		}
	}
	long := build(`{"a":{"dtype":"F32","shape":[`+strings.Repeat("1,", 10000)+`2],"data_offsets":[0,4]}}`, 4)
	if _, _, err := Read(bytes.NewReader(long), math.MaxInt64); err == nil || len(err.Error()) > 500 {
		t.Errorf("a hostile shape fills an error message: %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	scalar := []float32{1}
	for name, tensors := range map[string][]Tensor{
		"repeated name":      {{Name: "a", Shape: nil, Data: scalar}, {Name: "a", Shape: nil, Data: scalar}},
		"reserved name":      {{Name: "__metadata__", Shape: nil, Data: scalar}},
		"bad UTF-8":          {{Name: "\xff", Shape: nil, Data: scalar}},
		"too few values":     {{Name: "a", Shape: []int{2}, Data: scalar}},
		"too many values":    {{Name: "a", Shape: []int{0}, Data: scalar}},
		"negative dimension": {{Name: "a", Shape: []int{-1, -1}, Data: scalar}},
		"overflow":           {{Name: "a", Shape: []int{1 << 32, 1 << 32}, Data: nil}},
	} {
		var out bytes.Buffer
		if err := Write(&out, tensors, nil); err == nil || out.Len() > 0 {
			t.Errorf("%s: error %v after %d bytes", name, err, out.Len())
		}
	}
	if err := Write(io.Discard, nil, map[string]string{"k": "\xff"}); err == nil {
		t.Error("metadata with bad UTF-8 was written")
	}
	var full fullWriter = 100
	if err := Write(&full, []Tensor{{Name: "a", Shape: []int{100}, Data: make([]float32, 100)}}, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a failing writer: %v", err)
	}
}

// A fullWriter has room for that many bytes.
type fullWriter int

func (w *fullWriter) Write(b []byte) (int, error) {
	if len(b) > int(*w) {
		return 0, io.ErrShortWrite
	}
	*w -= fullWriter(len(b))
	return len(b), nil
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool { return s != metadataKey }), 0, 5, rapid.ID[string]).Draw(t, "names")
		want := make([]Tensor, len(names))
		for i, name := range names {
			shape := rapid.SliceOfN(rapid.IntRange(0, 6), 0, 4).Draw(t, "shape")
			count := 1
			for _, n := range shape {
				count *= n
			}
			want[i] = Tensor{name, shape, make([]float32, count), rapid.Bool().Draw(t, "half")}
			seed := rapid.Uint32().Draw(t, "bits")
			for j := range want[i].Data {
				bits := seed * uint32(2*j+1) // any bits, but for what is not finite
				if want[i].Data[j] = math.Float32frombits(bits); want[i].Half {
					want[i].Data[j] = half.ToFloat32(uint16(bits))
				}
				if x := want[i].Data[j]; x-x != 0 {
					want[i].Data[j] = 0
				}
			}
		}
		metadata := rapid.MapOfN(rapid.String(), rapid.String(), 1, 4).Draw(t, "metadata")
		var file bytes.Buffer
		if err := Write(&file, want, metadata); err != nil {
			t.Fatal(err)
		}
		head := binary.LittleEndian.Uint64(file.Bytes())
		if head%alignment != 0 || !json.Valid(file.Bytes()[8:8+head]) {
			t.Fatalf("header %q", file.Bytes()[8:8+head])
		}
		got, gotMetadata, err := Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			t.Fatal(err)
		}
		sameBits := cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
		if diff := cmp.Diff(want, got, sameBits); diff != "" {
			t.Fatalf("tensors (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(metadata, gotMetadata); diff != "" {
			t.Fatalf("metadata (-want +got):\n%s", diff)
		}
	})
}

// Values of every type that PyTorch saves weights in are read as the float32 that they are, or that is nearest. The bytes
// were written down by hand.
func TestTypes(t *testing.T) {
	for dtype, c := range map[string]struct {
		data string
		want []float32
	}{
		"F32":  {"\x00\x00\xc0\x3f\x00\x00\x00\xc0", []float32{1.5, -2}},
		"F16":  {"\x00\x3e\x00\xc0", []float32{1.5, -2}},
		"BF16": {"\xc0\x3f\x00\xc0\x49\x40\x80\x00", []float32{1.5, -2, 3.140625, 0x1p-126}},
		"F64":  {"\x9a\x99\x99\x99\x99\x99\xb9\x3f\x00\x00\x00\x00\x00\x00\x00\xc0\x00\x00\x00\xe0\xff\xff\xef\x47\x00\x00\x00\x00\x00\x00\x00\x00", []float32{0.1, -2, math.MaxFloat32, 0}},
	} {
		header := fmt.Sprintf(`{"a":{"dtype":%q,"shape":[%d],"data_offsets":[0,%d]}}`, dtype, len(c.want), len(c.data))
		got, _, err := Read(strings.NewReader(string(build(header, 0))+c.data), math.MaxInt64)
		if err != nil {
			t.Errorf("%s: %v", dtype, err)
			continue
		}
		if want := []Tensor{{Name: "a", Shape: []int{len(c.want)}, Data: c.want, Half: dtype == "F16"}}; !cmp.Equal(want, got) {
			t.Errorf("%s: %v, want %v", dtype, got, want)
		}
	}
}

// Values that are not finite are refused by the name of their tensor, also those that float32 does not hold.
func TestNotFinite(t *testing.T) {
	for name, c := range map[string]struct{ dtype, value string }{
		"NaN":                    {"F32", "\x00\x00\xc0\x7f"},
		"-Inf":                   {"F32", "\x00\x00\x80\xff"},
		"NaN of 16 bits":         {"F16", "\x01\x7e"},
		"+Inf of 16 bits":        {"F16", "\x00\x7c"},
		"NaN of brain floats":    {"BF16", "\xc0\x7f"},
		"+Inf of brain floats":   {"BF16", "\x80\x7f"},
		"NaN of 64 bits":         {"F64", "\x00\x00\x00\x00\x00\x00\xf8\x7f"},
		"10³⁹ of 64 bits":        {"F64", "\x5e\xdc\x0b\xe8\xb1\x73\x07\x48"},
		"just above the largest": {"F64", "\x00\x00\x00\xf0\xff\xff\xef\x47"},
	} {
		zeros, size := make([]byte, len(c.value)), 2*len(c.value)
		header := fmt.Sprintf(`{"conv1.bias":{"dtype":%q,"shape":[2],"data_offsets":[0,%d]}}`, c.dtype, size)
		_, _, err := Read(strings.NewReader(string(build(header, 0))+string(zeros)+c.value), math.MaxInt64)
		if !errors.Is(err, ErrNotFinite) || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `tensor "conv1.bias"`) || !strings.Contains(err.Error(), "value 1 of 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Files of other formats are recognized, and the error says how to save what they hold.
func TestOtherFormats(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"torch.save":           {"PK\x03\x04\x00\x00\x08\x08\x00\x00" + strings.Repeat("\x00", 16) + "\x0c\x00\x12\x00cnn/data.pkl" + strings.Repeat("\x00", 50), "a zip file, as torch.save writes: save the weights by safetensors.torch.save_file("},
		"a short zip":          {"PK\x03\x04\x00\x00\x08\x08", "a zip file: if torch.save wrote it, save the weights by"},
		"an index":             {"{\n  \"metadata\": {}, \"weight_map\": {}}", "a text in JSON, such as an index"},
		"numpy.savez":          {"PK\x03\x04\x14\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 16) + "\x0b\x00\x00\x00x_train.npy\x93NUMPY", "a zip file, as numpy.savez writes: save its arrays by safetensors.numpy.save_file("},
		"torch.save of before": {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8", "a pickle, as older versions of torch.save write: save the weights by"},
		"pickle.dump":          {"\x80\x04\x95\x2a\x00\x00\x00\x00\x00\x00\x00}", "a pickle: "},
		"numpy.save":           {"\x93NUMPY\x01\x00v\x00{'descr'", "a single array"},
		"Keras":                {"\x89HDF\r\n\x1a\n\x00\x00", "an HDF5 file"},
		"gzip":                 {"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "compressed by gzip"},
		"Git LFS":              {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
		"ONNX of PyTorch":      {"\x08\x08\x12\x07pytorch\x1a\x052.1.0", "an ONNX file"},
		"ONNX of nobody":       {"\x08\x0a\x3a\xc0\x80\x02\x0a\x10", "an ONNX file"},
	} {
		_, _, err := Read(strings.NewReader(c.file), math.MaxInt64)
		if !errors.Is(err, ErrOther) || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	for name, file := range map[string]string{"text": "weights of a network", "ones": strings.Repeat("\xff", 16)} {
		if _, _, err := Read(strings.NewReader(file), math.MaxInt64); errors.Is(err, ErrOther) || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Metadata needs no value.
func TestMetadata(t *testing.T) {
	golden, err := os.ReadFile("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	_, want := goldenTensors()
	got, err := Metadata(bytes.NewReader(golden[:8+binary.LittleEndian.Uint64(golden)]), int64(len(golden)))
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("metadata %v, %v; want %v", got, err, want)
	}
}

// A tensor of several chunks, not a multiple of one.
func TestLargeTensor(t *testing.T) {
	want := []Tensor{{Name: "a", Shape: []int{3*chunkSize + 1}, Data: make([]float32, 3*chunkSize+1)}}
	for i := range want[0].Data {
		want[0].Data[i] = float32(i)
	}
	var file bytes.Buffer
	if err := Write(&file, want, nil); err != nil {
		t.Fatal(err)
	}
	got, _, err := Read(&file, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("tensors (-want +got):\n%s", diff)
	}
}

// Whatever is accepted says the same when written again, and its data bytes are
// the input's.
func FuzzRead(f *testing.F) {
	golden, err := os.ReadFile("testdata/golden.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(build(`{}`, 0))
	f.Add(build(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(build(`{"a":{"dtype":"F32","shape":[0,99],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  `, 4))
	f.Add(build(`{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,9223372036854775807]}}`, 4))
	f.Add(build(`{"a":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}}`, 6))
	f.Add(build(`{"__metadata__":{"\ud800":"\u0000"},"\ud800":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}`, 2))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, metadata, err := Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v does not say that the file is at fault", err)
			}
			return
		}
		var again bytes.Buffer
		if err := Write(&again, tensors, metadata); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		data := func(b []byte) []byte { return b[8+binary.LittleEndian.Uint64(b):] }
		entries, _, err := parseHeader(file[8:][:binary.LittleEndian.Uint64(file)])
		if err != nil {
			t.Fatal(err)
		}
		converted := slices.ContainsFunc(entries, func(e entry) bool { return e.form.put == nil })
		if !converted && !bytes.Equal(data(file), data(again.Bytes())) {
			t.Fatal("the data changed")
		}
		back, backMetadata, err := Read(&again, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		for i := range back {
			if back[i].Name != tensors[i].Name || !cmp.Equal(back[i].Shape, tensors[i].Shape) {
				t.Fatalf("tensor %d became %q %v, was %q %v", i, back[i].Name, back[i].Shape, tensors[i].Name, tensors[i].Shape)
			}
			if !slices.EqualFunc(back[i].Data, tensors[i].Data, func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Fatalf("tensor %d has other values", i)
			}
		}
		if len(metadata) > 0 && !cmp.Equal(metadata, backMetadata) {
			t.Fatalf("metadata became %v, was %v", backMetadata, metadata)
		}
	})
}
