import { PAGES } from "./pages.js";

const KEYS: readonly [keys: string, what: string][] = [
  ["Ctrl K", "open the command palette"],
  ["/", "search this page"],
  ["j, k", "next, previous row"],
  ["Enter", "open the focused row"],
  ["x", "select the focused task; X selects the range up to it"],
  ["p", "pause or resume the event stream"],
  ["Esc", "close a dialog, or leave the search field"],
  ...PAGES.map(({ key, name }): [string, string] => [`g ${key}`, `go to ${name}`]),
  ["?", "show this list"],
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
