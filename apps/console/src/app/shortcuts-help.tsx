import { PAGES } from "./pages.js";

const KEYS: readonly [keys: string, what: string][] = [
  ["Ctrl K", "find or do something"],
  ["/", "search this page"],
  ["j, k", "next and previous row"],
  ["Enter", "open the marked row"],
  ["x", "select the marked row (tasks); X: all rows up to it"],
  ["p", "pause the stream of events"],
  ["Esc", "close, or leave the search"],
  ...PAGES.map(({ key, name }): [string, string] => [`g ${key}`, `go to ${name}`]),
  ["?", "this list"],
];

export function ShortcutsHelp() {
  return (
    <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-2 text-sm">
      {KEYS.map(([keys, what]) => (
        <div key={keys} className="contents">
          <dt>
            <kbd className="rounded border bg-sunken px-1.5 py-0.5 font-mono text-xs">{keys}</kbd>
          </dt>
          <dd className="text-muted">{what}</dd>
        </div>
      ))}
    </dl>
  );
}
