import { Button, CopyButton } from "leasehold-ui";
import { useMemo, useState } from "react";

/** A browser takes seconds to lay out megabytes of text. */
const SHOWN_LENGTH = 20_000;

/** The beginning of a text that may be very long. It does not end within a character. */
export function beginning(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Indented JSON with a button that copies it. Of a long one only the beginning is shown at first. */
export function JsonView({ value, name }: { readonly value: unknown; readonly name: string }) {
  const [whole, setWhole] = useState(false);
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "undefined", [value]);
  const isCut = text.length > SHOWN_LENGTH && !whole;
  return (
    <div className="relative">
      <div className="absolute top-1.5 right-1.5">
        <CopyButton text={text} label={`Copy ${name}`} />
      </div>
      <pre
        tabIndex={0}
        role="region"
        aria-label={name}
        className="max-h-96 overflow-auto rounded-lg bg-sunken p-3 pr-28 font-mono text-xs leading-relaxed whitespace-pre-wrap break-words"
      >
        {isCut ? beginning(text, SHOWN_LENGTH) : text}
      </pre>
      {isCut && (
        <p className="mt-1 flex items-center gap-2 text-xs text-muted">
          The first {SHOWN_LENGTH.toLocaleString("en")} of {text.length.toLocaleString("en")}{" "}
          characters.
          <Button small look="quiet" onClick={() => setWhole(true)}>
            Show all
          </Button>
        </p>
      )}
    </div>
  );
}
