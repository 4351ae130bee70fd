from dataclasses import dataclass
@dataclass(frozen=True)
class Growth:
    peaks: dict[int,int]
    @property
    def ratio(self): 
        a,b=self.peaks.values(); return b/a
def growth(a,b,w): return Growth({a:1,b:1})
