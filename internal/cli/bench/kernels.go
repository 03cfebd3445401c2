package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
)

func gemm() *cobra.Command {
	var o bench.GEMMOptions
	return cli.Command{
		Use:   "gemm",
		Short: "Time matrix products beside the processor's peak",
		Long: `gemm times float32 matrix products m×k times k×n, on one thread and on --threads. It also
measures the processor's peak: multiply-adds in registers alone, by its widest
instructions. It prints each product as a share of that peak. The threads share one dense
product; of other products each thread has its own records. Packing of operands counts,
as in training. Kinds with squares are 3×3 convolutions by fewer multiplications than the
product has (Winograd). The share counts the product's, so it may be above 100%.

With --device cuda and --model it times the products of the model's dense layers on a GPU:
forward, gradients at the inputs, and clipped sums for the weights. It times the project's
kernels, and cuBLAS where NVIDIA's library is installed.`,
		Example: `  privgrad bench gemm
  privgrad bench gemm --model cifar-small --threads 2 --json
  privgrad bench gemm --device cuda --model mlp-mnist`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&o.Model, "model", "", "time the products of this model's layers instead of large shapes")
			f.IntVar(&o.Batch, "batch", 256, "with --model: records per batch")
			f.StringVar(&o.Device, "device", "cpu", "cpu, cuda or cuda:N; a GPU is compared with cuBLAS")
			f.IntVar(&o.Threads, "threads", 0, "CPU threads; 0: all")
			f.Float64Var(&o.Seconds, "seconds", 0.5, "seconds per product, on one thread and on all")
		},
		Run: func(c *cli.Call) error {
			if o.Device != "cpu" {
				return measure(&o, bench.GPUGEMM, describeGPUGEMM)(c)
			}
			return measure(&o, bench.GEMM, describeGEMM)(c)
		},
	}.New()
}

func describeGEMM(w io.Writer, r *bench.GEMMResult) {
	fmt.Fprintf(w, "float32 products by %s kernels", r.ISA)
	if r.PeakISA != "" {
		fmt.Fprintf(w, "; peak: %s multiply-adds in registers", r.PeakISA)
	}
	fmt.Fprint(w, "\n\n")
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "m×k×n\tkind\tthreads\tGFLOP/s\tpeak\tof peak\t")
		for _, p := range r.Products {
			peak, fraction := "unknown", "unknown"
			if p.Peak != nil {
				peak, fraction = fmt.Sprintf("%.0f", *p.Peak), fmt.Sprintf("%.0f%%", 100**p.Fraction)
			}
			fmt.Fprintf(w, "%d×%d×%d\t%s\t%d\t%.1f\t%s\t%s\t\n", p.M, p.K, p.N, p.Kind, p.Threads, p.GFLOPS, peak, fraction)
		}
	})
}

func describeGPUGEMM(w io.Writer, r *bench.GPUGEMMResult) {
	fmt.Fprintf(w, "float32 products of %s's dense layers, batch %d, on %s", r.Model, r.Batch, r.Device)
	if r.CuBLAS != nil {
		fmt.Fprintf(w, ", cuBLAS %s\n\n", *r.CuBLAS)
	} else {
		fmt.Fprintf(w, "\n%s\n\n", r.NoBLAS)
	}
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "layer\tproduct\tm×k×n\town\tcuBLAS\tfaster\tdifference\t")
		for _, p := range r.Products {
			theirs, faster, difference := "", "", ""
			if p.CuBLAS != nil {
				theirs, faster, difference = fmt.Sprintf("%.4g µs", *p.CuBLAS*1e6), *p.Faster, fmt.Sprintf("%.2g", *p.Difference)
				if !*p.RowsAlike {
					faster = "own, as cuBLAS adds up rows in different orders"
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%d×%d×%d\t%.4g µs\t%s\t%s\t%s\t\n", p.Layer, p.Product, p.M, p.K, p.N, p.Own*1e6, theirs, faster, difference)
		}
	})
	if r.Faster != nil {
		fmt.Fprintf(w, "\nIn all %.4g µs by the project's kernels, %.4g µs by cuBLAS.\n", r.Own*1e6, *r.Theirs*1e6)
	}
}

func noise() *cobra.Command {
	var o bench.NoiseOptions
	return cli.Command{
		Use:   "noise",
		Short: "Time Gaussian noise, released and exact",
		Long: `noise times exactly rounded Gaussian draws from cryptographic streams, on one thread and
on --threads. It times two kinds in turns: a release rounds a float32 to a grid and adds a
draw; exact noise adds a draw to an integer.`,
		Example: `  privgrad bench noise
  privgrad bench noise --seconds 5 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.IntVar(&o.Threads, "threads", 0, "CPU threads; 0: all")
			f.Float64Var(&o.Seconds, "seconds", 1, "seconds per kind, on one thread and on all")
		},
		Run: measure(&o, bench.Noise, describeNoise),
	}.New()
}

func describeNoise(w io.Writer, r *bench.NoiseResult) {
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "noise\tcipher\tthreads\tns per draw and core\tmillion draws per second\t")
		for _, c := range r.Ciphers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.1f\t\n", c.Noise, c.Cipher, c.Threads, 1e9*c.SecondsPerDraw, c.DrawsPerSecond/1e6)
		}
	})
}

func sampler() *cobra.Command {
	var o bench.SamplerOptions
	return cli.Command{
		Use:   "sampler",
		Short: "Time the drawing of batches",
		Long: `sampler times how batches are drawn, on one thread. Each of --public-n records joins a batch
independently of the others; --batch is the expected number that join.`,
		Example: `  privgrad bench sampler
  privgrad bench sampler --public-n 1000000 --batch 4096 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.IntVar(&o.Records, "public-n", 60000, "records to draw from")
			f.Float64Var(&o.Batch, "batch", 1024, "expected records per batch")
			f.Float64Var(&o.Seconds, "seconds", 1, "seconds per sampler")
		},
		Run: measure(&o, bench.Sampler, describeSampler),
	}.New()
}

func describeSampler(w io.Writer, r *bench.SamplerResult) {
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "sampler\tcipher\trecords\trate\tµs per batch\tmillion records per second\t")
		for _, s := range r.Samplers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%.4g\t%.1f\t%.2f\t\n", s.Sampler, s.Cipher, s.Records, s.Rate, 1e6*s.BatchSeconds, s.RowsPerSecond/1e6)
		}
	})
}

func account() *cobra.Command {
	var seconds float64
	return cli.Command{
		Use:   "account",
		Short: "Time the accountants",
		Long: `account times the accountants on one thread, at δ = 1e-5. The tasks are the ε of a long
run of DP-SGD, the ε of a list of a hundred different mechanisms, and the noise for a
given ε.`,
		Example: `  privgrad bench account
  privgrad bench account --seconds 5 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.Float64Var(&seconds, "seconds", 1, "seconds per task; each runs at least three times")
		},
		Run: measure(&seconds, bench.Account, describeAccounts),
	}.New()
}

func describeAccounts(w io.Writer, r *bench.AccountResult) {
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "task\taccountant\tε\twidth\tmilliseconds")
		for _, a := range r.Accounts {
			width := "–"
			if a.Width != nil {
				width = fmt.Sprintf("%.2g", *a.Width)
			}
			fmt.Fprintf(w, "%s\t%s\t%.5g\t%s\t%.3g\n", a.Task, a.Accountant, a.Epsilon, width, 1e3*a.Seconds)
		}
	})
}
