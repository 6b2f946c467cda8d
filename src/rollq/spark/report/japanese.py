"""The Japanese texts of a page, by the English ones."""

from __future__ import annotations

from typing import Final

JAPANESE: Final = {
    # The head, and the figures below it.
    "rollq report": "rollq レポート",
    "group": "グループ",
    "made": "作成",
    "tables": "テーブル",
    "(no name)": "(名前なし)",
    "{group}, log index {first} to {last}, {rows} rows": (
        "{group}、ログ番号 {first}〜{last}、{rows} 行"
    ),
    "Nothing happened yet: the tables hold no jobs.": (
        "まだ何も起きていません。テーブルにジョブがありません。"
    ),
    "all of them well": "すべて成功しました",
    "{share} of them well": "そのうち {share} が成功しました",
    "{first} to {last} UTC ({length}): {submitted} jobs were submitted and {ended} ended": (
        "{first}〜{last} UTC ({length})。投入されたジョブは {submitted} 件、"
        "終了したジョブは {ended} 件"
    ),
    ", {how}.": "で、{how}。",
    ".": "です。",
    "{n} open when this period began": "期間の開始時に未完了 {n} 件",
    "{n} redriven": "再投入 {n} 件",
    "{n} still open at its end": "期間の終了時に未完了 {n} 件",
    "{n} submitted before the history that is left begins": "残っている履歴より前の投入 {n} 件",
    " Jobs beside these: {parts}.": " ほかのジョブ: {parts}。",
    ", ": "、",
    "submitted": "投入",
    "succeeded": "成功",
    "failed": "失敗",
    "dead": "デッド",
    "cancelled": "取消",
    "retried": "再試行",
    "retries": "再試行",
    "peak": "最大",
    "jobs ended in {length}": "{length} 間の終了件数",
    "wait": "待ち",
    "run": "実行",
    "wait p95": "待ち p95",
    "run p95": "実行 p95",
    "files moved": "ファイル転送",
    "{share} from caches": "{share} はキャッシュから",
    # Sections.
    "Look at": "注意点",
    "What happened to the grid": "グリッドに起きたこと",
    "Marked by these numbers on every chart. The history does not say who leads: where all "
    "workers connect again at once, there is a new leader, or the same was restarted.": (
        "各グラフにこの番号で印を付けています。リーダーは履歴に記録されないため、"
        "全ワーカーが一斉に再接続した時点を、リーダーの交代または再起動とみなします。"
    ),
    "{names} and {n} more": "{names} ほか {n} 台",
    "a new leader, or the same restarted: all {n} workers connected again": (
        "リーダーの交代または再起動: {n} 台のワーカーがすべて再接続"
    ),
    "{what} lost, with {n} job": "{what} が失われた (ジョブ {n} 件)",
    "{what} lost, with {n} jobs": "{what} が失われた (ジョブ {n} 件)",
    "{what} connected again": "{what} が再接続",
    "queue {what} paused, and still is": "キュー {what} が停止され、まだ停止中",
    "queue {what} paused for {length}": "キュー {what} が {length} 停止",
    "{n} more are left out": "ほか {n} 件は省略",
    "Beside the time before": "前の期間との比較",
    "Before: {first} to {last} UTC. Now: {now} to {end} UTC.": (
        "前: {first}〜{last} UTC。今: {now}〜{end} UTC。"
    ),
    "before": "前",
    "now": "今",
    "change": "変化",
    "same": "同じ",
    "new": "新規",
    "Throughput": "スループット",
    "No job was submitted or ended in this period.": (
        "この期間に投入または終了したジョブはありません。"
    ),
    "Jobs that ended, {every}.": "終了したジョブ、{every}。",
    "from (UTC)": "開始 (UTC)",
    "Numbers": "数値",
    "Time in the queue": "キューでの待ち時間",
    "Time of running": "実行時間",
    "No attempt in this period.": "この期間に試行はありません。",
    "From being ready to being assigned, {every}.": "実行可能になってから割り当てまで、{every}。",
    "From being ready to being assigned, {every}: the worst hour.": (
        "実行可能になってから割り当てまで、{every}、最も悪い 1 時間。"
    ),
    "As the worker measured it, {every}.": "ワーカーの計測値、{every}。",
    "As the worker measured it, {every}: the worst hour.": (
        "ワーカーの計測値、{every}、最も悪い 1 時間。"
    ),
    "Depth": "滞留",
    "Nothing waited or ran at the end of any minute.": (
        "どの分の終わりにも、待ちや実行中のジョブはありませんでした。"
    ),
    "Jobs that wait and jobs that workers have: at the end, {every}.": (
        "待っているジョブとワーカーが持つジョブ: 区間の終わりの値、{every}。"
    ),
    "Jobs that wait and jobs that workers have: the most, {every}.": (
        "待っているジョブとワーカーが持つジョブ: 区間の最大値、{every}。"
    ),
    "waiting": "待ち",
    "running": "実行中",
    "Utilisation of workers": "ワーカーの稼働率",
    "No worker was there.": "ワーカーはいませんでした。",
    "Share of a worker's slots that were busy. Hatched: it was not there.": (
        "ワーカーのスロットのうち使用中の割合。斜線: 不在。"
    ),
    "Share of a worker's slots that were busy; jobs that it fetched ahead count, too. Hatched: it "
    "was not there.": "ワーカーのスロットのうち使用中の割合 (先読みしたジョブを含む)。斜線: 不在。",
    " The {shown} busiest; {n} more are left out.": (
        " 稼働率の高い {shown} 台。ほか {n} 台は省略。"
    ),
    "worker": "ワーカー",
    "busy": "稼働率",
    "{n} slot": "{n} スロット",
    "{n} slots": "{n} スロット",
    "Attempts that came to nothing": "完了しなかった試行",
    "Every attempt came to an end of its own.": "すべての試行が完了しました。",
    "Lost, given back or tried again, by cause. The job ran again, or died.": (
        "失われた、返された、または再試行された試行を原因別に。ジョブは再実行されたか、デッドになりました。"
    ),
    "Dead letters": "デッドレター",
    "No job died.": "デッドになったジョブはありません。",
    "By cause.": "原因別。",
    "cause": "原因",
    "attempts": "試行",
    "jobs": "ジョブ",
    "programs": "プログラム",
    "Queues": "キュー",
    "Clients": "クライアント",
    "queue": "キュー",
    "client": "クライアント",
    "key": "キー",
    "(none)": "(なし)",
    "Those with most jobs first.": "ジョブの多い順。",
    " {n} with fewer jobs are left out.": " ほか {n} 件は省略。",
    "Slowest programs": "遅いプログラム",
    "No program ran.": "実行されたプログラムはありません。",
    "Run time of what ended in this period: dot p50, bar p95, end of the line p99.": (
        "この期間に終了したものの実行時間: 点 p50、縦線 p95、線の端 p99。"
    ),
    " {n} quicker ones are left out.": " より速い {n} 件は省略。",
    "program": "プログラム",
    "The life of a job": "ジョブの経過",
    "No job to show.": "表示するジョブはありません。",
    "A row an attempt: first the wait, then the run. rollq report --job ID shows any other.": (
        "1 行が 1 回の試行で、待ち、実行の順。ほかのジョブは rollq report --job ID で。"
    ),
    "All times in UTC. Made by rollq report from the tables of rollq pipeline; this file holds "
    "everything it shows.": (
        "時刻はすべて UTC。rollq pipeline のテーブルから rollq report が作成。"
        "表示内容はすべてこのファイルに含まれます。"
    ),
    "Checks of the data": "データの検査",
    "No batch was checked yet.": "まだ検査されたバッチはありません。",
    "What must be so, asked of each batch; {n} so far.": (
        "各バッチで成り立つべき条件。これまでに {n} バッチ。"
    ),
    "All of it is so.": "すべて成り立っています。",
    "check": "検査",
    "batches": "バッチ",
    "not known": "不明",
    "failed last in batch": "最後に失敗したバッチ",
    # The life of a job.
    "attempt": "試行",
    "took": "所要時間",
    "{n} earlier attempts are left out": "それ以前の試行 {n} 件は省略",
    "a program": "プログラム",
    "a worker": "ワーカー",
    "submitted {at}": "投入 {at}",
    "took {length} in all": "全体で {length}",
    "waited {wait}, then {took} on {worker}: {outcome}": (
        "待ち {wait}、その後 {worker} で {took}: {outcome}"
    ),
    "none": "なし",
    "only waited": "待ちのみ",
    "time (UTC)": "時刻 (UTC)",
    "index": "番号",
    "type": "種類",
    "what": "内容",
    "History": "履歴",
    "{n} more rows are left out": "ほか {n} 行は省略",
    "most attempts": "試行が最多",
    "the last that died": "最後にデッドになったジョブ",
    "slowest": "最も遅い",
    "asked for": "指定されたジョブ",
    # What to look at.
    "These figures do not agree with each other: the checks {names} failed.": (
        "数値が互いに一致しません。失敗した検査: {names}。"
    ),
    "{n} job died": "{n} 件のジョブがデッドになりました",
    "{n} jobs died": "{n} 件のジョブがデッドになりました",
    ", most by {cause}": " (最多の原因: {cause})",
    ": rollq dlq list shows those still there.": "。残っているものは rollq dlq list で。",
    "{name} failed in {share} of its {n} jobs.": "{name} は {n} 件のうち {share} が失敗しました。",
    "{n} attempt ended with a lost worker or lease.": (
        "{n} 件の試行がワーカーまたはリースを失いました。"
    ),
    "{n} attempts ended with a lost worker or lease.": (
        "{n} 件の試行がワーカーまたはリースを失いました。"
    ),
    "{n} jobs wait at the end, more than twice the most of the first half.": (
        "終わりに {n} 件が待っており、前半の最大値の 2 倍を超えています。"
    ),
    "{n} jobs wait at the end, more than twice the most of the first half, while workers are only "
    "{share} busy: see rollq explain.": (
        "終わりに {n} 件が待っており、前半の最大値の 2 倍を超えています。"
        "ワーカーの稼働率は {share} だけです。rollq explain を参照してください。"
    ),
    "Waiting became slower: p95 {old} in the first half, {new} in the second.": (
        "待ちが長くなりました: p95 は前半 {old}、後半 {new}。"
    ),
    "Running became slower: p95 {old} in the first half, {new} in the second.": (
        "実行が遅くなりました: p95 は前半 {old}、後半 {new}。"
    ),
    "All workers connected again at once: the leader changed or was restarted; see the marks on "
    "the charts.": (
        "全ワーカーが一斉に再接続しました (リーダーの交代または再起動)。"
        "グラフの印を参照してください。"
    ),
    "All workers connected again at once, {n} times: the leader changed or was restarted; see the "
    "marks on the charts.": (
        "全ワーカーが {n} 回一斉に再接続しました (リーダーの交代または再起動)。"
        "グラフの印を参照してください。"
    ),
    "Queue {what} is paused: rollq queue resume ends it.": (
        "キュー {what} は停止中です。rollq queue resume で再開します。"
    ),
    "Waiting peaked at {when}: p95 {worst}, {ratio} times what is usual.": (
        "待ちが {when} に最大でした: p95 {worst}、通常の {ratio} 倍。"
    ),
    "Running peaked at {when}: p95 {worst}, {ratio} times what is usual.": (
        "実行が {when} に最も遅くなりました: p95 {worst}、通常の {ratio} 倍。"
    ),
    "{n} jobs failed, after {old} in the time before.": (
        "{n} 件のジョブが失敗しました (前の期間は {old} 件)。"
    ),
    "{n} jobs died, after {old} in the time before.": (
        "{n} 件のジョブがデッドになりました (前の期間は {old} 件)。"
    ),
    "{n} attempts were repeated, after {old} in the time before.": (
        "{n} 件の試行が再試行されました (前の期間は {old} 件)。"
    ),
    # Steps of time.
    "every second": "1 秒ごと",
    "every minute": "1 分ごと",
    "every hour": "1 時間ごと",
    "every day": "1 日ごと",
    "every week": "1 週間ごと",
    "every {length}": "{length} ごと",
    "{month} {day}": "{number}月{day}日",
    # States, outcomes and causes.
    "ok": "成功",
    "delayed": "遅延",
    "blocked": "依存待ち",
    "parent": "親ジョブ",
    "worker down": "ワーカー喪失",
    "lease lost": "リース喪失",
    "nacked": "返却",
    "exit code": "終了コード",
    "expired": "期限切れ",
    "worker restarted": "ワーカー再起動",
    "id taken": "ID 重複",
    "worker_down": "ワーカー喪失",
    "lease_lost": "リース喪失",
}
