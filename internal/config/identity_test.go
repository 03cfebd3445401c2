package config

import (
	"errors"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/devices"
)

// Ledgers on disk hold fingerprints: these were taken before there was a table of
// settings, and must stay what they are.
var fingerprints = []struct {
	name, want string
	set        func(*Config) // over small()
}{
	{"the default run", "4110ee980f9622c71c72ed30f24c342d61a9058cc613fbfc95c3875f51316aa5", func(c *Config) { *c = Default() }},
	{"an earlier network", "1f239f5cf976ce020e54723347852b79c073ff453a45b779d633abcb300e29a5", func(c *Config) { c.ModelVersion = 1 }},
	{"nothing", "5dbc811475c3be2dc39f05b719d18a68b228e2d60c60264a83fb44654df6f166", func(c *Config) { *c = Config{} }},
	{"a short run", "1f239f5cf976ce020e54723347852b79c073ff453a45b779d633abcb300e29a5", func(*Config) {}},
	{"another device", "1f239f5cf976ce020e54723347852b79c073ff453a45b779d633abcb300e29a5", func(c *Config) { c.DataDir, c.Device, c.Threads = "/data", "cuda:1", 7 }},
	{"another memory", "1f239f5cf976ce020e54723347852b79c073ff453a45b779d633abcb300e29a5", func(c *Config) { c.Memory, c.MaxPhysicalBatch, c.GEMM = "2GiB", 3, devices.GEMMCuBLAS }},
	{"seeded", "185e16413fed06fc4248a1dc51980c2f654fd9828635ce0ad8a5f75639894fe8", func(c *Config) { c.Noise = dpoptim.Seeded }},
	{"seeded on another device", "185e16413fed06fc4248a1dc51980c2f654fd9828635ce0ad8a5f75639894fe8", func(c *Config) { c.Noise, c.DataDir, c.Device, c.Threads = dpoptim.Seeded, "d", "cpu", 2 }},
	{"seeded in another memory", "66239599c6c541a011eddc92f4468562d36f04c8e6dd897a71131bd660591cfe", func(c *Config) {
		c.Noise, c.Memory, c.MaxPhysicalBatch, c.GEMM = dpoptim.Seeded, "2GiB", 3, devices.GEMMCuBLAS
	}},
	{"exact", "10651d72a1dc308b3eb547fd3ff424a9d351c53cd9fdae626b428f860eb57d88", func(c *Config) { c.Noise, c.Strategy = dpoptim.Exact, "materialise" }},
	{"no precision", "1f239f5cf976ce020e54723347852b79c073ff453a45b779d633abcb300e29a5", func(c *Config) { c.Precision = "" }},
	{"tf32", "cdc19cf9c2bc46328198e5f9b3726788c51ef94fd6113b81a066a3e653d7815c", func(c *Config) { c.Precision = "tf32" }},
	{"a table", "64e9d8ef45add2a081186fa3d96b6459133eaa96d46384c114b3cd9b45767564", func(c *Config) { *c = tableConfig(); c.Schema, c.Folds, c.Fold = "s.yaml", 5, 2 }},
	{"published", "5b319752a84f82250898c949341e766a6d3a9398c681ac305666ff0807067c63", func(c *Config) {
		c.PublishedSet, c.TestIsPublic, c.Init, c.Seed = true, true, "m.safetensors", 1<<64-1
	}},
	{"epsilon", "7b81f12494b0292634369223f1008ae9f0906706ef416520062f6e726a1618eb", func(c *Config) {
		c.Epsilon, c.NoiseMultiplier, c.Delta, c.SamplingRate, c.Batch, c.Epochs, c.Steps = ptr(3.0), nil, ptr(1e-6), ptr(0.1), nil, ptr(2.5), nil
	}},
	{"dp-adam", "774a23b981aee658cedac0f2e7952c55137ca288e1572bfd4f9056606b6de478", func(c *Config) {
		c.Optimizer, c.Adam.Beta1, c.Adam.Beta2, c.Adam.Epsilon, c.Adam.SubtractNoise = "dp-adam", ptr(0.8), ptr(0.95), ptr(1e-3), true
		c.LRSchedule, c.Warmup, c.Average = dpoptim.Cosine, 4, 0.99
	}},
	{"adaptive clipping", "d768dccec4e4e8113c4e37d7c4349eeeba5dd3dde40313fb5f3e5860d4bb624b", func(c *Config) {
		c.Clipping, c.Clip, c.ClipFloor, c.ClipCeiling, c.ClipQuantile = "adaptive", 0.5, ptr(1e-3), ptr(8.0), ptr(0.7)
	}},
	{"l2p", "4919e636d26a670d28d0b1c20ead2079957f50eb62f599b914afa1b7ab16069e", func(c *Config) {
		c.Optimizer, c.L2P.Protector, c.L2P.Weights, c.L2P.NormNoise, c.Neighbouring = l2p.Name, "mnist", "00ff", ptr(4.0), "replace-one"
	}},
	{"dp-blsgd", "0bacbb7d5c5ee2a80e596348a2915f30f5ac2a3b2020c5d23123e3d9f6775635", func(c *Config) { c.Optimizer = "dp-blsgd" }},
	{"a search", "07cc56cee178ab2d627c75999c460c41a46704c2adf330e5ee8b59c8cdc0a94c", func(c *Config) {
		c.Optimizer, c.Search = "dp-blsgd", blsgd.Settings{Form: "curve", Every: ptr(2), Correct: ptr(false), Margin: ptr(-1.5), Points: ptr(7)}
	}},
	{"diagnostics", "e3ab91aa841f8e34b9b9d02d2a18a1587b2e4347510f69733f545ab241dc72fb", func(c *Config) { c.PrivateDiagnostics, c.DataIsPublic, c.TrainLossNoise = true, true, ptr(5.0) }},
	{"sgd", "357caef3848383e4f897d0616b4ef7970af70fea360bc698d0a38d0c49427f43", func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Momentum, c.L2 = "sgd", nil, 0.9, 1e-4 }},
}

func TestFingerprintsStay(t *testing.T) {
	for _, f := range fingerprints {
		c := small()
		f.set(&c)
		c.Recipe = "" // as in what was resolved
		if c.Data != "" {
			c.Activation = "tanh" // as there, too
		}
		if got, err := c.Fingerprint(); err != nil || got != f.want {
			t.Errorf("%s: fingerprint %s, want %s (%v)", f.name, got, f.want, err)
		}
	}
}

// What multiplies may change when a run is resumed, but for one that promises bits.
func TestResumeMayChangeGEMM(t *testing.T) {
	for _, noise := range []string{dpoptim.Secure, dpoptim.Seeded} {
		a := small()
		a.Noise = noise
		b := a
		b.GEMM = devices.GEMMCuBLAS
		x, err1 := a.Fingerprint()
		y, err2 := b.Fingerprint()
		if err := errors.Join(err1, err2); err != nil || (x == y) != (noise == dpoptim.Secure) {
			t.Errorf("%s: the same run: %v (%v)", noise, x == y, err)
		}
	}
}
