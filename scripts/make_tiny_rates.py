import json, math, random, signal, sys, time
import dp_accounting
from dp_accounting import pld
def value(q,s,t,d):
    std = q*math.sqrt(math.expm1(1/s**2))
    grid = min(1e-4, 0.1*std)
    a = pld.PLDAccountant(value_discretization_interval=grid)
    a.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(s)), t)
    return a.get_epsilon(d)
rng=random.Random(52)
class Slow(Exception): pass
def alarm(*_): raise Slow
signal.signal(signal.SIGALRM, alarm)
out=[]
while len(out)<230:
    q=float("%.3g"%math.exp(rng.uniform(math.log(1e-6),math.log(1e-2))))
    taken=math.exp(rng.uniform(math.log(.1),math.log(100)))
    t=round(taken/q)
    s=float("%.3g"%math.exp(rng.uniform(math.log(.5),math.log(8))))
    d=10.0**-rng.randint(3,9)
    if t<1 or t>3e7: continue
    b=time.time(); signal.alarm(90)
    try: e=value(q,s,t,d)
    except (Slow,MemoryError,Exception) as x:
        print("left out",q,s,t,d,type(x),file=sys.stderr); continue
    finally: signal.alarm(0)
    if not 1e-5<e<20: continue
    out.append([q,s,t,d,e]); print([q,s,t,d,e],"%.1f"%(time.time()-b),file=sys.stderr,flush=True)
    json.dump(out,open("/tmp/golden.json","w"))
