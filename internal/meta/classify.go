package meta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Records are rows of features with labels 0 and 1.
type Records struct {
	Width    int
	Features []float64
	Labels   []int
}

func (r *Records) row(i int) []float64 { return r.Features[i*r.Width:][:r.Width] }

// A Source draws the records of a task with two classes: some to train on, others to
// judge the loss by.
type Source interface {
	Draw(r *rand.Rand) (train, judged *Records)
}

// Gaussians draw classes that are each a Gaussian around a random point, of a random
// width in every direction, within [−1, 1].
type Gaussians struct {
	Width, Train, Judged int
}

func (g Gaussians) Draw(r *rand.Rand) (train, judged *Records) {
	var centre, spread [2][]float64
	for c := range 2 {
		for range g.Width {
			centre[c] = append(centre[c], 0.4*r.NormFloat64())
			spread[c] = append(spread[c], 0.2+0.8*r.Float64())
		}
	}
	draw := func(n int) *Records {
		out := &Records{Width: g.Width}
		for range n {
			c := r.IntN(2)
			out.Labels = append(out.Labels, c)
			for j := range g.Width {
				out.Features = append(out.Features, min(max(centre[c][j]+spread[c][j]*r.NormFloat64(), -1), 1))
			}
		}
		return out
	}
	return draw(g.Train), draw(g.Judged)
}

// Images are those of public data sets. A task is two of their classes.
type Images struct {
	width         int
	byClass       [][][]float64 // classes, images, pixels
	train, judged int
}

// NewImages takes images of side×side pixels, rows of labels' classes. They are averaged
// over squares of pool×pool pixels; classes are those from which pairs are drawn, and a
// task trains on so many images at most, and is judged by others.
func NewImages(pixels []float64, labels []int, side, pool int, classes []int, train, judged int) (*Images, error) {
	switch {
	case side < 1 || len(pixels) != len(labels)*side*side:
		return nil, fmt.Errorf("%d pixels are not those of %d images of %d×%d", len(pixels), len(labels), side, side)
	case pool < 1 || side%pool != 0:
		return nil, fmt.Errorf("pooling by %d: must divide the %d pixels of a side", pool, side)
	case len(classes) < 2:
		return nil, fmt.Errorf("%d classes: a task needs two to tell apart", len(classes))
	case train < 1 || judged < 1:
		return nil, fmt.Errorf("%d images to train on and %d to judge by: both must be 1 or more", train, judged)
	}
	small := side / pool
	m := &Images{width: small * small, train: train, judged: judged}
	for _, class := range classes {
		var images [][]float64
		for i, l := range labels {
			if l == class {
				images = append(images, averaged(pixels[i*side*side:][:side*side], side, pool))
			}
		}
		if len(images) < 2 {
			return nil, fmt.Errorf("class %d has %d images: at least 2 are needed", class, len(images))
		}
		m.byClass = append(m.byClass, images)
	}
	return m, nil
}

func averaged(image []float64, side, pool int) []float64 {
	small := side / pool
	out := make([]float64, small*small)
	for i, v := range image {
		out[i/side/pool*small+i%side/pool] += v / float64(pool*pool)
	}
	return out
}

func (m *Images) Draw(r *rand.Rand) (train, judged *Records) {
	order := r.Perm(len(m.byClass))
	pool := [2][][]float64{m.byClass[order[0]], m.byClass[order[1]]}
	n := len(pool[0]) + len(pool[1])
	shuffled := r.Perm(n)
	take := func(count int) *Records {
		out := &Records{Width: m.width}
		for _, i := range shuffled[:count] {
			class := 0
			if i >= len(pool[0]) {
				class, i = 1, i-len(pool[0])
			}
			out.Features = append(out.Features, pool[class][i]...)
			out.Labels = append(out.Labels, class)
		}
		shuffled = shuffled[count:]
		return out
	}
	judgedCount := min(m.judged, n/2)
	return take(min(m.train, n-judgedCount)), take(judgedCount)
}

// Tables are public tables with two classes. A task is records of one of them.
type Tables struct {
	all           []*Records
	train, judged int
}

// NewTables takes tables; a task trains on so many records at most, and is judged by others.
func NewTables(all []*Records, train, judged int) (*Tables, error) {
	if len(all) == 0 || train < 1 || judged < 1 {
		return nil, fmt.Errorf("%d tables, %d records to train on and %d to judge by: all must be 1 or more", len(all), train, judged)
	}
	for i, t := range all {
		if len(t.Labels) < 2 {
			return nil, fmt.Errorf("table %d has %d records: at least 2 are needed", i+1, len(t.Labels))
		}
	}
	return &Tables{all, train, judged}, nil
}

func (m *Tables) Draw(r *rand.Rand) (train, judged *Records) {
	from := m.all[r.IntN(len(m.all))]
	order := r.Perm(len(from.Labels))
	take := func(rows []int) *Records {
		out := &Records{Width: from.Width}
		for _, i := range rows {
			out.Features, out.Labels = append(out.Features, from.row(i)...), append(out.Labels, from.Labels[i])
		}
		return out
	}
	held := min(m.judged, len(order)/2)
	return take(order[held:min(held+m.train, len(order))]), take(order[:held])
}

// Models of classifiers.
const (
	Logistic = "logistic" // one output, cross-entropy
	SVM      = "svm"      // one output, hinge loss
	MLP      = "mlp"      // one hidden layer, two outputs, cross-entropy
)

// Classifiers are tasks with two classes. A network of d inputs has as parameters the
// weights of each layer, by rows of outputs, and its biases.
type Classifiers struct {
	Source  Source
	Model   string
	Hidden  int  // units of an MLP
	Tanh    bool // they are hyperbolic tangents, else sigmoids
	Penalty float64
}

func (f Classifiers) Draw(r *rand.Rand) Task {
	train, judged := f.Source.Draw(r)
	return &classifier{Classifiers: f, train: train, judged: judged}
}

type classifier struct {
	Classifiers
	train, judged *Records
}

func (c *classifier) Records() int { return len(c.train.Labels) }
func (c *classifier) L2() float64  { return c.Penalty }

func (c *classifier) Params() int {
	d := c.train.Width
	if c.Model == MLP {
		return c.Hidden*(d+1) + 2*(c.Hidden+1)
	}
	return d + 1
}

// Start is Glorot and Bengio's for a network (2010, equation 16), with biases of 0, and 0 for a
// linear model.
func (c *classifier) Start(r *rand.Rand, params []float64) {
	clear(params)
	if c.Model != MLP {
		return
	}
	d, h := c.train.Width, c.Hidden
	uniform := func(w []float64, fans int) {
		a := math.Sqrt(6 / float64(fans))
		for i := range w {
			w[i] = a * (2*r.Float64() - 1)
		}
	}
	n := c.view(params)
	uniform(n.first.Data, d+h)
	uniform(n.second.Data, h+2)
}

// A view has the parameters of a network, or their gradient.
type view struct {
	first, second         blas64.General
	firstBias, secondBias []float64
}

func (c *classifier) view(params []float64) view {
	d, h := c.train.Width, c.Hidden
	v := view{first: matrix(h, d, params)}
	params = params[h*d:]
	v.firstBias, params = params[:h], params[h:]
	v.second = matrix(2, h, params)
	v.secondBias = params[2*h:]
	return v
}

func (c *classifier) ClippedSum(params []float64, rows []int, clip float64, sum []float64) {
	clear(sum)
	for part := range slices.Chunk(rows, chunk) {
		c.gradients(c.train, part, params, clip, 1, sum)
	}
}

func (c *classifier) Loss(params, grad []float64) float64 {
	clear(grad)
	n := len(c.judged.Labels)
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	total := 0.0
	for part := range slices.Chunk(rows, chunk) {
		total += c.gradients(c.judged, part, params, 0, 1/float64(n), grad)
	}
	return total/float64(n) + penalty(c.Penalty, params, grad)
}

// chunk is how many records go through a model together: few enough for a cache.
const chunk = 256

// gradients adds scale times the records' gradients, each clipped unless clip is 0, to
// sum, unless that is nil, and gives the sum of the losses.
func (c *classifier) gradients(from *Records, rows []int, params []float64, clip, scale float64, sum []float64) float64 {
	if c.Model == MLP {
		return c.network(from, rows, params, clip, scale, sum)
	}
	total := 0.0
	for _, i := range rows {
		x := from.row(i)
		sign := float64(2*from.Labels[i] - 1)
		loss, slope := c.linearLoss(sign * (dot(params[:len(x)], x) + params[len(x)]))
		total += loss
		if slope *= sign; sum == nil || slope == 0 {
			continue
		}
		f := scale * slope
		if clip > 0 {
			f *= clipped(clip, slope*slope*(dot(x, x)+1))
		}
		axpy(f, x, sum[:len(x)])
		sum[len(x)] += f
	}
	return total
}

func (c *classifier) linearLoss(m float64) (loss, slope float64) {
	if c.Model == SVM {
		if m >= 1 {
			return 0, 0
		}
		return 1 - m, -1
	}
	return math.Log1p(math.Exp(-math.Abs(m))) + max(-m, 0), -sigmoid(-m)
}

// outputs gives the inputs of records, a row each, and what the two layers put out.
func (c *classifier) outputs(from *Records, rows []int, params []float64) (layers [2]blas64.General, out blas64.General) {
	n, d, h := len(rows), from.Width, c.Hidden
	v := c.view(params)
	x, a := matrix(n, d, make([]float64, n*d)), matrix(n, h, make([]float64, n*h))
	out = matrix(n, 2, make([]float64, 2*n))
	for k, i := range rows {
		copy(x.Data[k*d:][:d], from.row(i))
		copy(a.Data[k*h:][:h], v.firstBias)
		copy(out.Data[2*k:][:2], v.secondBias)
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, v.first, 1, a)
	for i, p := range a.Data {
		if c.Tanh {
			a.Data[i] = tanh(p)
		} else {
			a.Data[i] = sigmoid(p)
		}
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, a, v.second, 1, out)
	return [2]blas64.General{x, a}, out
}

// network is gradients of an MLP. A layer's gradient of a record is the outer product of
// what comes back and what goes in, so its norm is the product of theirs.
func (c *classifier) network(from *Records, rows []int, params []float64, clip, scale float64, sum []float64) float64 {
	n, h := len(rows), c.Hidden
	layers, out := c.outputs(from, rows, params)
	x, a, v := layers[0], layers[1], c.view(params)
	total := 0.0
	for k, i := range rows {
		own := out.Data[2*k+from.Labels[i]]
		other := out.Data[2*k+1-from.Labels[i]]
		total += max(other-own, 0) + math.Log1p(math.Exp(-math.Abs(other-own)))
		wrong := sigmoid(other - own)
		out.Data[2*k+from.Labels[i]], out.Data[2*k+1-from.Labels[i]] = -wrong, wrong
	}
	if sum == nil {
		return total
	}
	back := matrix(n, h, make([]float64, n*h))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, out, v.second, 0, back)
	for i, y := range a.Data {
		if c.Tanh {
			back.Data[i] *= 1 - y*y
		} else {
			back.Data[i] *= y * (1 - y)
		}
	}
	g := c.view(sum)
	for k := range rows {
		d1, d2 := back.Data[k*h:][:h], out.Data[2*k:][:2]
		f := scale
		if clip > 0 {
			in, mid := x.Data[k*x.Cols:][:x.Cols], a.Data[k*h:][:h]
			f *= clipped(clip, dot(d1, d1)*(dot(in, in)+1)+dot(d2, d2)*(dot(mid, mid)+1))
		}
		for j := range d1 {
			d1[j] *= f
		}
		d2[0], d2[1] = d2[0]*f, d2[1]*f
		axpy(1, d1, g.firstBias)
		axpy(1, d2, g.secondBias)
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, back, x, 1, g.first)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, out, a, 1, g.second)
	return total
}
