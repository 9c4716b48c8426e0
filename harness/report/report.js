"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const $ = (id) => document.getElementById(id);

  // Theme: follow the system until the reader chooses; remember the choice where storage is allowed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("afere-theme"); } catch { return null; } };
  const apply = (theme) => {
    if (theme) root.dataset.theme = theme;
    $("theme-name").textContent = (theme || (dark.matches ? "dark" : "light")) === "dark" ? "Dark" : "Light";
  };
  apply(stored());
  dark.addEventListener("change", () => apply(root.dataset.theme));
  $("theme").addEventListener("click", () => {
    const next = (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    try { localStorage.setItem("afere-theme", next); } catch { /* a file page may have no storage */ }
    apply(next);
  });

  // Copy: the clipboard API is missing on insecure pages, so fall back to a selection.
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const pre = button.closest("figure").querySelector("pre");
      let done = false;
      try { await navigator.clipboard.writeText(pre.textContent); done = true; } catch { /* below */ }
      if (!done) {
        const range = document.createRange();
        range.selectNodeContents(pre);
        const selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        try { done = document.execCommand("copy"); } catch { /* the text stays selected */ }
      }
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // Filters.
  const form = $("filters");
  const findings = [...document.querySelectorAll(".finding")].map((el) => ({ el, text: null }));
  const filter = () => {
    const words = $("q").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = [...form.querySelectorAll("select")].filter((s) => s.value).map((s) => [s.dataset.filter, s.value]);
    let shown = 0;
    for (const finding of findings) {
      const data = finding.el.dataset;
      let keep = wanted.every(([name, value]) => data[name].split("\n").includes(value));
      if (keep && words.length) {
        finding.text ??= finding.el.textContent.toLowerCase();
        keep = words.every((word) => finding.text.includes(word));
      }
      finding.el.hidden = !keep;
      shown += keep ? 1 : 0;
    }
    $("shown").textContent = `${shown.toLocaleString("en")} of ${findings.length.toLocaleString("en")} shown`;
    $("none").hidden = shown > 0;
  };
  if (form) {
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(filter));
    $("clear").addEventListener("click", () => form.reset());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
      event.preventDefault();
      $("q").focus();
    });
  }

  // A link to a finding opens it, even where a filter hides it.
  const follow = () => {
    const el = location.hash.length > 1 && $(decodeURIComponent(location.hash.slice(1)));
    if (!el || !el.classList.contains("finding")) return;
    if (el.hidden) { form.reset(); setTimeout(() => { filter(); el.scrollIntoView(); }); }
    el.open = true;
    el.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();
})();
