"""The report of a search as one HTML file that needs nothing else: to read, to print, to send."""

from slideseek_apps.reports.images import jpeg_data_uri, length_label, scale_bar
from slideseek_apps.reports.page import HitPanel, Panel, QuerySection, Report, Table, render_report

__all__ = [
    "HitPanel",
    "Panel",
    "QuerySection",
    "Report",
    "Table",
    "jpeg_data_uri",
    "length_label",
    "render_report",
    "scale_bar",
]
