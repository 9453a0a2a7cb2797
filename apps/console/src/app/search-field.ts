/** The id of a page's search field, which `/` focuses. */
export const SEARCH_FIELD_ID = "page-search";
export function focusSearch(): void {
  document.getElementById(SEARCH_FIELD_ID)?.focus();
}
