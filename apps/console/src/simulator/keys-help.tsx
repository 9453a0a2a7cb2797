export const KEYS = {
  play: " ",
  stepOn: ".",
  stepBack: ",",
  rewind: "r",
  later: "ArrowRight",
  earlier: "ArrowLeft",
  faster: "+",
  slower: "-",
  help: "h",
} as const;

const ROWS: readonly [keys: string, what: string][] = [
  ["Space", "play, pause"],
  [".", "to the next turn of the story"],
  [",", "to the turn before"],
  ["→ ←", "a second on or back"],
  ["r", "to the beginning"],
  ["+ −", "faster, slower"],
  ["1 … 9", "scenarios"],
  ["Tab, Enter", "to a process, the store or (paused) a message, and what can be done to it"],
  ["h", "this list"],
];

export function KeysHelp() {
  return (
    <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-2 text-sm">
      {ROWS.map(([keys, what]) => (
        <div key={keys} className="contents">
          <dt>
            <kbd className="rounded border bg-sunken px-1.5 py-0.5 font-mono text-xs whitespace-nowrap">
              {keys}
            </kbd>
          </dt>
          <dd className="text-muted">{what}</dd>
        </div>
      ))}
    </dl>
  );
}
