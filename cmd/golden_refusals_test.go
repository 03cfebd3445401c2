package cmd

import (
	"os"
	"strings"
	"testing"
)

// refusals are settings that train refuses, by what they are about. They follow a
// private run on small files; those after a ! bring its length and batches themselves.
const refusals = `
--epsilon 1 --optimizer none --clipping none --noise none
--epsilon nan
--epsilon x
--optimizer sgd --clipping automatic
--epsilon 1 --clip 0
--epsilon 1 --clip 1e30
--epsilon 1 --optimizer dp-adam --momentum 0.5
--epsilon 1 -c bias.yaml
--epsilon 1 --optimizer dp-adam -c bias.yaml --clipping adaptive
--epsilon 1 --optimizer dp-blsgd --search-form none
--epsilon 1 --optimizer dp-blsgd --search-budget none
--epsilon 1 --optimizer dp-blsgd --momentum 0.5
--epsilon 1 --optimizer dp-blsgd --noise exact
--epsilon 1 --optimizer dp-blsgd --clipping adaptive
--epsilon 1 --optimizer dp-blsgd --lr 1e-20
--epsilon 1 --optimizer dp-blsgd -c paper.yaml --neighbouring replace-one
--epsilon 1 --optimizer dp-blsgd --search-budget fixed -c paper.yaml --train-loss-noise 1
--epsilon 1 --optimizer dp-blsgd --accountant prv
--noise-multiplier 1 --optimizer dp-blsgd
--epsilon 1 --optimizer dp-blgd --sampling-rate 0.5
--epsilon 1 --optimizer dp-blsgd --train-loss-noise 1
--epsilon 1 --optimizer dp-blsgd --lr-schedule cosine
--epsilon 1 --optimizer dp-blsgd --warmup 2
! --epsilon 1 --optimizer dp-blsgd --epochs 2
--epsilon 1 --optimizer dp-blsgd-ac --search-budget fixed
--epsilon 1 --optimizer dp-blsgd --search-form minimum
--epsilon 1 --optimizer dp-agd --search-form losses
--epsilon 1 --optimizer dp-blsgd --search-form curve
--epsilon 1 --accountant ctcdp
--epsilon 1 --protector mnist
--epsilon 1 --optimizer l2p
--epsilon 1 --optimizer l2p --protector none
--epsilon 1 --optimizer l2p --protector mnist --clipping adaptive
--epsilon 1 --optimizer l2p --protector mnist --accountant ctcdp
--epsilon 1 --optimizer l2p --protector mnist --accountant ctcdp --neighbouring replace-one --train-loss-noise 1
--epsilon 1 --optimizer l2p --protector mnist --accountant ctcdp --neighbouring replace-one
--noise-multiplier 1 --optimizer l2p --protector mnist --accountant ctcdp --neighbouring replace-one
--epsilon 1 --optimizer l2p --protector mnist --momentum 0.5
--epsilon 1 --noise exact --precision bf16
--epsilon 1 --precision bf16 --device cpu
--epsilon 1 --noise-multiplier 1
--delta 1e-5
--epsilon 1 --optimizer sgd
--noise-multiplier 1 --optimizer adam
--epsilon 1 --batch 10
--epsilon 1 --epochs 2
--epsilon 1 --folds 4
--epsilon 1 --folds 4 --fold 5
--optimizer sgd --train-loss-noise 1
--epsilon 1 --memory 1
--epsilon 1 --lr-schedule none
--epsilon 1 --warmup -1
--epsilon 1 --warmup 100
--epsilon 1 --gemm cublas
--epsilon 1 --noise exact --clipping automatic
--epsilon 1 --noise exact --strategy ghost
--noise-multiplier 1e8 --noise exact
--epsilon 1 --strategy conv1=gram
--epsilon 1e-9 --accountant rdp
--epsilon 1e-9 --clipping adaptive
--epsilon 1e-9 --optimizer dp-blsgd
--epsilon 1 --device none
--epsilon 1 --init none.safetensors
--epsilon 1 --data none
--epsilon 1 --data csv:none.csv
--epsilon 1 --schema adult
--epsilon 1 --model svm --classes 1,2,3
--epsilon 1 --model cifar-small
--epsilon 1 --classes 3
--epsilon 1 --classes 3,11
--epsilon 1 --classes 3,3
--epsilon 1 --published-set=false
--epsilon 1 --test-is-public --published-set=false
! --epsilon 1 --batch 100000
! --epsilon 1 --batch 1e-9
! --epsilon 1 --epochs 0.01 --batch 1000
! --epsilon 1 --epochs 1e9 --batch 1
! --optimizer lbfgs --batch 10
! --optimizer lbfgs --lr 1
! --optimizer lbfgs --lr-schedule cosine
! --epsilon 1 --optimizer majority --steps 3
! --epsilon 1 --optimizer majority --clipping automatic
! --epsilon 1 --optimizer majority --noise exact
! --epsilon 1 --optimizer majority --model svm
! --epsilon 1 --optimizer majority --l2 1
! --noise-multiplier 1 --optimizer majority
--epsilon 1 --views 4
--epsilon 1 --views 300 --augment flip
--epsilon 1 --augment flop
--epsilon 1 --views 2 --augment flip --features scatter
--epsilon 1 --views 2 --augment flip --feature-norm 1
--epsilon 1 -c quantile.yaml
--epsilon 1 -c adaptive.yaml
--epsilon 1 --optimizer dp-blsgd -c bound.yaml
--epsilon 1 -c norms.yaml
--epsilon 1 --optimizer l2p --protector mnist -c norms.yaml
--epsilon 1 --optimizer l2p --protector mnist -c norms.yaml --noise exact
--epsilon 1 --records-per-user 3
--epsilon 1 --unit person
--epsilon 1 --unit user:name
--epsilon 1 --users users.txt --records-per-user 300
--epsilon 1 --users users.txt --augment flip
--epsilon 1 --users users.txt --train-loss-noise 1
--epsilon 1 --users users.txt
--epsilon 1 --users users.txt --public-n 100
--epsilon 1 --users users.txt --optimizer dp-blsgd --public-n 100 --delta 1e-4
--epsilon 1 --users absent.txt
--epsilon 1 --clip-quantile 0.4
--epsilon 1 --resume --json
--epsilon 1 --resume=none
`

// What train refuses it refuses in the same words, with the same exit code, and
// before anything is written.
func TestGoldenRefusals(t *testing.T) {
	if !recordable() {
		t.Skip("floating-point numbers are rounded otherwise on this machine than where refusals were recorded")
	}
	files := mnistFiles(t)
	t.Chdir(t.TempDir())
	check(t, os.Rename(files, "data"))
	check(t, os.WriteFile("quantile.yaml", []byte("clip_quantile: 2\n"), 0o644))
	check(t, os.WriteFile("adaptive.yaml", []byte("clipping: adaptive\nclip_quantile: 2\n"), 0o644))
	check(t, os.WriteFile("bias.yaml", []byte("subtract_noise_variance: true\n"), 0o644))
	check(t, os.WriteFile("paper.yaml", []byte("search: {batches: paper}\n"), 0o644))
	check(t, os.WriteFile("quantile.yaml", []byte("clipping: adaptive\nclip_quantile: 2\n"), 0o644))
	check(t, os.WriteFile("bound.yaml", []byte("search: {clip: 0}\n"), 0o644))
	check(t, os.WriteFile("users.txt", []byte(strings.Repeat("a\nb\nc\n", 100)), 0o644))
	check(t, os.WriteFile("norms.yaml", []byte("norm_noise: 1\n"), 0o644))
	var parts []string
	for line := range strings.SplitSeq(strings.TrimSpace(refusals), "\n") {
		base := small("data")
		rest, bare := strings.CutPrefix(line, "! ")
		if bare {
			base = without(base, "--sampling-rate", "--steps", "--lr")
		}
		args := strings.Fields(rest)
		if !strings.Contains(rest, "--device") {
			base = append(base, "--device", "reference")
		}
		if !strings.Contains(rest, "--resume") {
			base = append(base, "--out", "refused")
		}
		part := transcript("", append(base, args...)...)
		if strings.Contains(part, "\nexit 0\n") {
			t.Errorf("train %s was not refused", line)
		}
		_, said, _ := strings.Cut(part, "\n")
		parts = append(parts, "$ "+line+"\n"+said)
		if _, err := os.Stat("refused"); err == nil {
			t.Errorf("train %s wrote a run directory", line)
			os.RemoveAll("refused")
		}
	}
	golden(t, "refusals.txt", parts)
}
