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
