"""The style of the page, light and dark. Waiting is violet and running blue everywhere; outcomes
also differ in lightness, for colour-blind readers."""

from __future__ import annotations

from typing import Final

_LIGHT: Final = """
--page:#fafaf8;--card:#fff;--ink:#1b2127;--soft:#59636e;--rule:#e3e5e2;--edge:#d5d8d4;
--wait:#6b4fbb;--run:#1f66b5;--succeeded:#1f66b5;--failed:#b86e00;--dead:#a5173f;
--cancelled:#6f7a85;--submitted:#1b2127;--hover:#1b21270f;--tip:#1b2127;--tip-ink:#fafaf8;
"""
_DARK: Final = """
--page:#14181c;--card:#1c2127;--ink:#e8ebee;--soft:#9ca7b2;--rule:#2b323a;--edge:#343c45;
--wait:#a894f0;--run:#69a8f2;--succeeded:#69a8f2;--failed:#e8a63c;--dead:#ff7a99;
--cancelled:#8894a0;--submitted:#e8ebee;--hover:#e8ebee14;--tip:#e8ebee;--tip-ink:#14181c;
"""
_RULES: Final = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:1.06rem;margin:0 0 2px}
h3{font-size:.95rem;margin:0;overflow-wrap:anywhere}
h3 small{font-weight:400;color:var(--soft)}
p{margin:0 0 10px}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.lead{font-size:1.05rem;max-width:64ch}
.soft,small{color:var(--soft)}
p.soft{font-size:.87rem;max-width:80ch}
.detail{font-size:.87rem;overflow-wrap:anywhere}
header{margin-bottom:20px}
dl.source{display:flex;flex-wrap:wrap;gap:2px 24px;margin:10px 0 0;font-size:.87rem}
dl.source div{display:flex;gap:6px}
dl.source dt{color:var(--soft)}
dl.source dd{margin:0;overflow-wrap:anywhere}
.tiles{display:flex;flex-wrap:wrap;background:var(--card);border:1px solid var(--rule);
border-radius:10px;overflow:hidden;margin:0 0 20px}
.tiles div{flex:1 1 112px;padding:12px 14px;margin:0 -1px -1px 0;border:solid var(--rule);
border-width:0 1px 1px 0}
.tiles dt{font-size:.8rem;color:var(--soft)}
.tiles dd{margin:0;font-size:1.35rem;font-weight:600;letter-spacing:-.01em;line-height:1.3}
.tiles small{display:block;font-size:.78rem;font-weight:400;letter-spacing:0}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;
padding:18px 20px;margin:0 0 16px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:0 16px}
.attention ul{margin:6px 0 0;padding-left:20px}
.attention li{margin:2px 0;overflow-wrap:anywhere}
.empty{color:var(--soft);border:1px dashed var(--edge);border-radius:8px;padding:18px;
margin:8px 0 0;text-align:center}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:0 0 8px;padding:0;
font-size:.83rem;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px}
.key{width:14px;height:10px;border-radius:2px;background:currentColor}
.key.p50,.key.p95,.key.p99{height:0;background:none;border-radius:0;width:18px}
.wait .key{color:var(--wait)}.run .key{color:var(--run)}
.key.p50{border-top:3px solid}.key.p95{border-top:1.5px solid}.key.p99{border-top:2px dotted}
.chart{position:relative;height:230px;padding:8px 0 24px 56px}
.chart>svg,.drawn svg{display:block;width:100%;height:100%;overflow:visible}
.ys{position:absolute;left:0;top:8px;bottom:24px;width:50px;font-size:.75rem;color:var(--soft)}
.ys span{position:absolute;right:0;transform:translateY(50%);white-space:nowrap}
.xs{position:relative;height:20px;margin-top:5px;font-size:.75rem;color:var(--soft)}
.xs span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.xs.ends span{transform:none}.xs.ends span:last-child{transform:translateX(-100%)}
.marks{position:absolute;top:-8px;left:56px;right:0;height:14px;font-size:.68rem;font-weight:600}
.marks span{position:absolute;transform:translateX(-50%);white-space:nowrap;line-height:14px}
.line.mark{stroke-width:1.5;stroke-dasharray:3 3}.fill.band{opacity:.12}
.leader,.lost{color:var(--dead)}.again{color:var(--soft)}.paused{color:var(--failed)}
.happened{margin:6px 0 0;padding-left:30px}.happened li::marker{font-weight:600;color:inherit}
.happened time{color:var(--soft)}.happened span{color:var(--ink);overflow-wrap:anywhere}
.hits{position:absolute;inset:8px 0 24px 56px}
.hits i{position:absolute;top:0;bottom:0}
.hits i:hover,.hits i:focus{background:var(--hover);outline:none}
.hits b{display:none;position:absolute;z-index:2;top:4px;left:calc(100% + 6px);width:max-content;
max-width:200px;padding:8px 10px;border-radius:6px;background:var(--tip);color:var(--tip-ink);
font-size:.78rem;line-height:1.45;font-weight:400;font-style:normal;pointer-events:none}
.hits .r b{left:auto;right:calc(100% + 6px)}
.hits i:hover b,.hits i:focus b{display:block}
.hits b>*{display:flex;justify-content:space-between;gap:14px;white-space:nowrap}
.hits em{font-style:normal;font-weight:600}
path,rect{vector-effect:non-scaling-stroke}
.grid{stroke:var(--rule);fill:none;stroke-width:1}
.fill{fill:currentColor;stroke:none}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.fill.body{opacity:.2}.fill.tail{opacity:.09}.fill.soft{opacity:.22}
.line.p50{stroke-width:2.5}.line.p95{stroke-width:1.25}
.line.p99{stroke-width:1.5;stroke-dasharray:1 4}
.line.thin{stroke-width:2;opacity:.5}.line.dot{stroke-width:9}.line.bar{stroke-width:3}
.wait{color:var(--wait)}.run{color:var(--run)}.succeeded{color:var(--succeeded)}
.failed{color:var(--failed)}.dead{color:var(--dead)}.cancelled{color:var(--cancelled)}
.submitted{color:var(--submitted)}
table{border-collapse:collapse;width:100%;font-size:.87rem}
th{font-weight:500;text-align:left}
thead th,thead td{font-size:.78rem;color:var(--soft);font-weight:400;padding-bottom:4px;
vertical-align:bottom}
.drawn th,.drawn td{padding:3px 10px 3px 0;vertical-align:middle}
.drawn tbody th{overflow-wrap:anywhere;min-width:132px;max-width:260px}
.heat tbody th,.gantt tbody th{min-width:84px}
.drawn small{display:block;font-size:.75rem;font-weight:400;line-height:1.2}
.drawn .wide{width:55%;height:28px;padding-right:12px}
.drawn .wide svg{height:22px}
.drawn td.soft{font-size:.8rem;overflow-wrap:anywhere}
.n{text-align:right!important;white-space:nowrap}
.heat .wide,.gantt .wide{width:82%}
.heat rect{fill:var(--run)}.heat rect.there{fill:var(--card)}
.heat svg{background:repeating-linear-gradient(135deg,transparent 0 5px,var(--rule) 5px 6px)}
.gantt .wide svg{height:24px}.gantt .fill.soft{opacity:.45}
.pair .drawn .wide{width:38%}.shares .wide{width:26%}.drawn.shares tbody th{min-width:180px}
.ramp{width:72px;height:10px;border-radius:2px;
background:linear-gradient(90deg,color-mix(in srgb,var(--run) 6%,transparent),var(--run))}
.scroll{overflow-x:auto;max-width:100%}
details{margin-top:10px;font-size:.87rem}
summary{cursor:pointer;color:var(--soft);width:max-content}
.plain{width:auto;font-size:.8rem;margin-top:6px}
.plain th,.plain td{padding:2px 14px 2px 0;text-align:right;white-space:nowrap;
border-top:1px solid var(--rule)}
.plain th:first-child,article .plain td{text-align:left}
.plain td.long{white-space:normal;min-width:260px;overflow-wrap:anywhere}
article{border-top:1px solid var(--rule);padding-top:14px;margin-top:14px}
footer{color:var(--soft);font-size:.8rem;margin-top:20px}
@media(max-width:640px){
main{padding:18px 12px 32px}
section{padding:14px 12px}
h1{font-size:1.35rem}
.tiles div{flex-basis:45%}
.tiles dd{font-size:1.2rem}
.xs .alt{display:none}
.chart{height:200px;padding-left:48px}
.ys{width:42px}.hits,.marks{left:48px}
.drawn .wide{width:44%;min-width:110px}
.drawn tbody th,.drawn.shares tbody th{min-width:104px}
.heat tbody th,.gantt tbody th{min-width:60px}
.heat .wide,.gantt .wide{width:72%}
.drawn td.soft,.drawn th.soft{display:none}
.drawn th,.drawn td{padding-right:8px}
}
@media print{section,.tiles{break-inside:avoid}.hits{display:none}}
"""
STYLE: Final = (
    f":root{{{_LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}{_RULES}"
).replace("\n", "")
