import { useState } from "react";
import { Button } from "./button.js";
import { Icon } from "./icon.js";

/** Copies text to the clipboard and confirms it for a moment. */
export function CopyButton({
  text,
  label = "Copy",
}: {
  readonly text: string;
  readonly label?: string;
}) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <Button small look="quiet" onClick={() => void copy()}>
      <Icon name={copied ? "check" : "copy"} size={14} />
      <span aria-live="polite">{copied ? "Copied" : label}</span>
    </Button>
  );
}

/** Indented JSON with a button that copies it. */
export function JsonView({ value, name }: { readonly value: unknown; readonly name: string }) {
  const text = JSON.stringify(value, null, 2) ?? "undefined";
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
        {text}
      </pre>
    </div>
  );
}
