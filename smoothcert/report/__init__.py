"""⑦ From stored evidence to figures, tables, curves and pages."""
