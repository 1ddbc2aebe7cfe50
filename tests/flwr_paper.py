"""The broker paper's Queries 1-3, as printed (broker §2.2, §3.1, §3.2)."""

QUERY_1 = """
<sections>
{
  for $s in document("doc.xml")//section
  where $s//figure/title = "XML processing"
  return <section>
    { $s/title }
    { $s/figure }
  </section>
}
</sections>
"""

QUERY_2 = """
<figures>
{
  for $f in document("doc.xml")//section[@id<=2]//figure
  where $f/title = "XML processing"
  return <figure> { $f/image } </figure>
}
</figures>
"""

QUERY_3 = """
<sections>
{
  for $s in document("doc.xml")//section
  where $s/title="XML"
    and $s/figure/title = "XML processing"
  return <section>
{ $s//section//title }
{ $s//figure }
</section>
}
</sections>
"""

QUERIES = (QUERY_1, QUERY_2, QUERY_3)
