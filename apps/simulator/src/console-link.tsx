/** The server adds this element to its pages, with the root of the console. */
const BASE = document.querySelector("base");

/** Leads back to the console of the server that has sent this page. Other hosts have no console. */
export function ConsoleLink() {
  if (BASE === null) return null;
  return (
    <a
      href={BASE.href}
      className="inline-flex h-9 items-center rounded-md border bg-surface px-3 text-sm font-medium hover:border-line-strong hover:bg-raised"
    >
      Console
    </a>
  );
}
