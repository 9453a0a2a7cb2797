/** Downloads text as a file. */
export function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** `audit-2026-04-08T10-15-30Z`. Some file systems allow no colons in file names. */
export const stamped = (name: string, date = new Date()): string =>
  `${name}-${date
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replaceAll(":", "-")}`;
