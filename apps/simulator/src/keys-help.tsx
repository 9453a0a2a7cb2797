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
  ["Space", "play or pause"],
  [".", "next step"],
  [",", "previous step"],
  ["→ ←", "forward or back one second"],
  ["r", "back to the start"],
  ["+ −", "faster, slower"],
  ["1 … 9", "choose a scenario"],
  ["Tab, Enter", "open the menu of a process, of the store or, while paused, of a message"],
  ["h", "show this list"],
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
